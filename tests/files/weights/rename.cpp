#include "attn/files/weights/rename.hpp"

#include "examples.hpp"
#include "caught.hpp"
#include "test.hpp"

using namespace attn;
using namespace attn::files;
using namespace attn::test;

namespace {

/// Tensors of which each holds its number.
NamedArrays numbered(const std::vector<std::string>& names)
{
    NamedArrays arrays;
    for (const std::string& name : names)
        arrays.emplace(name, Array{{1}, {static_cast<double>(arrays.size())}});
    return arrays;
}

std::string refusal_of(const std::vector<std::string>& names, const std::vector<std::string>& renames)
{
    return caught<Error>([&] { (void)rename_tensors(numbered(names), renames); });
}

} // namespace

TEST_CASE("a tensor is read under the name of the first rename that fits its whole name", "[weights][rename]")
{
    const NamedArrays one = rename_tensors(numbered({"a", "ab"}), {"a=c"});
    CHECK(names_of(one) == Names{"ab", "c"});
    CHECK(one.at("c").values.front() == 0);

    CHECK(names_of(rename_tensors(numbered({"blocks.0.ff.up.weight", "blocks.11.ff.up.weight", "norm.weight"}),
                                  {"blocks.*.ff.*=layers.*.mlp.*"})) ==
          Names{"layers.0.mlp.up.weight", "layers.11.mlp.up.weight", "norm.weight"});
    CHECK(names_of(rename_tensors(numbered({"m.a.w", "m.b.w"}), {"m.a.w=first", "m.*=*"})) == Names{"b.w", "first"});
    CHECK(names_of(rename_tensors(numbered({"w.x.w"}), {"*.w=*.weight"})) == Names{"w.x.weight"});
    CHECK(names_of(rename_tensors(numbered({"aba"}), {"a*a=*"})) == Names{"b"});
    CHECK(names_of(rename_tensors(numbered({"x", "y"}), {"x=y", "y=x"})) == Names{"x", "y"});
    CHECK(names_of(rename_tensors(numbered({"x"}), {})) == Names{"x"});
}

TEST_CASE("a rename that can't be meant is refused by its text", "[weights][rename][hostile]")
{
    CHECK_THAT(refusal_of({"a"}, {"a"}), ContainsSubstring("expected OLD=NEW, found a"));
    CHECK_THAT(refusal_of({"a"}, {"=a"}), ContainsSubstring("expected OLD=NEW"));
    CHECK_THAT(refusal_of({"a"}, {"a="}), ContainsSubstring("expected OLD=NEW"));
    CHECK_THAT(refusal_of({"a.b"}, {"*.*=*"}), ContainsSubstring("*.*=* has 2 * before the = and 1 after it"));
    CHECK_THAT(refusal_of({"a", "b"}, {"c*=d*"}),
               ContainsSubstring("c*=d* fits no tensor") && ContainsSubstring("the first tensor is a"));
    CHECK_THAT(refusal_of({"a"}, {"a=b", "*=c*"}), ContainsSubstring("*=c* fits no tensor"));
    CHECK_THAT(refusal_of({"a", "b"}, {"a=b"}), ContainsSubstring("two tensors would be called b"));
    CHECK_THAT(refusal_of({"aa"}, {"aa*a=b*"}), ContainsSubstring("fits no tensor"));
}
