#include "attn/files/trace_file.hpp"

#include "attn/files/file.hpp"
#include "attn/files/npz.hpp"
#include "npz_members.hpp"
#include "temporary_folder.hpp"
#include "test.hpp"

#include <algorithm>
#include <cmath>

using namespace attn;
using namespace attn::files;
namespace fs = std::filesystem;

namespace {

std::vector<Step> steps_to_write()
{
    return {{"mask", "", {"n", "m"}, "", {}, {{1, 2}, {1, 0}, ElementType::boolean}},
            {"head.0.masked",
             "where(mask, scaled, -inf) \"quoted\" \xc3\xa9",
             {"n", "m"},
             "attention",
             {{"scale", "1/sqrt(d_k)"}, {"causal", ""}},
             {{1, 2}, {0.1, -INFINITY}}},
            {"a_loss", "mean(masked)", {}, "", {}, {{}, {NAN}}},
            {"ids", "", {}, "", {}, {{0}, {}, ElementType::integer}}};
}

/// The bits of two traces, texts and order included.
bool equal(const std::vector<Step>& left, const std::vector<Step>& right)
{
    return std::equal(left.begin(), left.end(), right.begin(), right.end(), [](const Step& a, const Step& b) {
        return a.path == b.path && a.formula == b.formula && a.axes == b.axes && a.module == b.module &&
               a.options == b.options && identical(a.value, b.value);
    });
}

/// What reading a file of this steps.json and these arrays says; "accepted" where it succeeds.
std::string refused_trace(const std::string& json, const std::vector<std::string>& names = {"a"},
                          const std::string& note = "")
{
    const TemporaryFolder folder;
    Npz content{{{"steps.json", json}}, {}, note};
    for (const std::string& name : names)
        content.arrays.emplace_back(name, Array{{2, 3}, {1, 2, 3, 4, 5, 6}});
    write_npz(folder / "t.npz", content);
    try {
        read_trace(folder / "t.npz");
    } catch (const FileError& error) {
        CHECK(error.path() == folder / "t.npz");
        CHECK(std::string(error.what()).find('\n') == std::string::npos);
        return error.what();
    }
    return "accepted";
}

/// The list of one step called a with some more keys.
std::string step_json(const std::string& keys) { return R"([{"path": "a", )" + keys + "}]"; }

std::string refusal_to_write(const Step& step)
{
    const TemporaryFolder folder;
    try {
        write_trace(folder / "t.npz", {{step}, {}});
    } catch (const FileError& error) {
        CHECK(folder.count() == 0);
        return error.what();
    }
    return "written";
}

} // namespace

TEST_CASE("a trace survives the file, every text and bit in its order", "[trace_io][trace_file]")
{
    const TemporaryFolder folder;
    write_trace(folder / "t.npz", {steps_to_write(), {{"head.0.mask", "mask"}, {"output", "a_loss"}}});
    const Recording found = read_trace(folder / "t.npz");
    CHECK(equal(found.steps, steps_to_write()));
    REQUIRE(found.aliases.size() == 2);
    CHECK(found.aliases[0].path == "head.0.mask");
    CHECK(found.aliases[1].target == "a_loss");
    write_trace(folder / "none.npz", {});
    CHECK(read_trace(folder / "none.npz").steps.empty());
}

TEST_CASE("a trace that is written while it is computed is the same file", "[trace_io][trace_file]")
{
    const TemporaryFolder folder;
    const std::vector<Alias> aliases{{"head.0.mask", "mask"}, {"output", "head.0.masked"}};
    {
        TraceWriter writer(folder / "t.npz");
        Listener& listener = writer;
        for (const Step& step : steps_to_write())
            CHECK_FALSE(listener.record(step));
        for (const Alias& alias : aliases)
            listener.record(alias);
        CHECK(folder.count() == 0);
        writer.finish();
    }
    write_trace(folder / "whole.npz", {steps_to_write(), aliases});
    CHECK(bytes_of(folder / "t.npz") == bytes_of(folder / "whole.npz"));
    CHECK(NpzReader(folder / "t.npz").names().back() == "output");
}

TEST_CASE("of a trace that is not finished nothing is left, and what was there before stays", "[trace_io][trace_file]")
{
    const TemporaryFolder folder;
    const auto begin = [&] {
        TraceWriter writer(folder / "t.npz");
        Listener& listener = writer;
        (void)listener.record(steps_to_write().front());
    };
    begin();
    CHECK(folder.count() == 0);
    write_trace(folder / "t.npz", {steps_to_write(), {}});
    const std::string before = bytes_of(folder / "t.npz");
    begin();
    CHECK(bytes_of(folder / "t.npz") == before);
    CHECK(folder.count() == 1);

    CHECK_THROWS_WITH(TraceWriter(folder / "absent" / "t.npz"), ContainsSubstring("does its folder exist"));
    TraceWriter full("/dev/full");
    CHECK_THROWS_WITH(full.finish(), ContainsSubstring("/dev/full: cannot be written"));
}

TEST_CASE("a trace serves as a file of named arrays", "[trace_io][trace_file]")
{
    const TemporaryFolder folder;
    write_trace(folder / "t.npz", {steps_to_write(), {}});
    const NamedArrays arrays = read_npz(folder / "t.npz");
    CHECK(arrays.size() == 4);
    CHECK(identical(arrays.at("head.0.masked"), steps_to_write()[1].value));
}

TEST_CASE("a result that is an alias has an array in the file, of its step's numbers", "[files][trace_file]")
{
    const TemporaryFolder folder;
    write_trace(folder / "t.npz", {steps_to_write(), {{"head.0.x", "mask"}, {"output", "head.0.masked"}}});
    const NamedArrays arrays = read_npz(folder / "t.npz");
    CHECK(arrays.size() == 5);
    CHECK(identical(arrays.at("output"), steps_to_write()[1].value));
    CHECK(read_trace(folder / "t.npz").steps.size() == 4);

    const auto with_array = [&](const Array& output) {
        write_npz(folder / "t.npz", {{{"steps.json", R"({"steps": [{"path": "a"}],
                                                         "aliases": [{"path": "output", "target": "a"}]})"}},
                                     {{"a", {{2}, {1, NAN}}}, {"output", output}},
                                     ""});
        return read_trace(folder / "t.npz");
    };
    CHECK(with_array({{2}, {1, NAN}}).at("output").value.values[0] == 1);
    for (const Array& other : {Array{{2}, {1, 2}}, Array{{1, 2}, {1, NAN}}, Array{{2}, {1, 0}, ElementType::boolean}})
        CHECK_THROWS_WITH(with_array(other),
                          ContainsSubstring("alias \"output\" means \"a\", but its array holds other numbers"));
}

TEST_CASE("steps.json has a step on each line, then the other names", "[trace_io][trace_file]")
{
    const TemporaryFolder folder;
    write_trace(folder / "t.npz", {{steps_to_write()[0], steps_to_write()[1]}, {{"output", "mask"}}});
    CHECK(
        read_npz_members(folder / "t.npz", {"steps.json"}).texts.at(0).second ==
        "{\"format\": \"attn trace 2\",\n\"made_by\": \"attn " ATTN_VERSION "\",\n\"steps\": [\n"
        R"({"path":"mask","formula":"","shape":[1,2],"axes":["n","m"],"module":"","options":{}},)"
        "\n"
        R"({"path":"head.0.masked","formula":"where(mask, scaled, -inf) \"quoted\" )"
        "\xc3\xa9"
        R"json(","shape":[1,2],"axes":["n","m"],"module":"attention","options":{"scale":"1/sqrt(d_k)","causal":""}})json"
        "\n],\n\"aliases\": [\n{\"path\":\"output\",\"target\":\"mask\"}\n]}\n");
}

TEST_CASE("the same steps give the same bytes and other steps others", "[trace_io][trace_file]")
{
    const TemporaryFolder folder;
    write_trace(folder / "one.npz", {steps_to_write(), {}});
    write_trace(folder / "two.npz", {steps_to_write(), {}});
    CHECK(bytes_of(folder / "one.npz") == bytes_of(folder / "two.npz"));
    std::vector<Step> other = steps_to_write();
    other[1].options[0].second = "1";
    write_trace(folder / "two.npz", {other, {}});
    CHECK(bytes_of(folder / "one.npz") != bytes_of(folder / "two.npz"));
}

TEST_CASE("a step that a file cannot represent is not written", "[trace_io][trace_file]")
{
    const Step good = steps_to_write()[1];
    CHECK(refusal_to_write(good) == "written");
    const auto changed = [&](auto change) {
        Step bad = good;
        change(bad);
        return refusal_to_write(bad);
    };
    CHECK_THAT(changed([](Step& s) { s.path = "a/b"; }), ContainsSubstring("step \"a/b\" has a path"));
    CHECK_THAT(changed([](Step& s) { s.path = ""; }), ContainsSubstring("has a path"));
    CHECK_THAT(changed([](Step& s) { s.axes = {"n"}; }),
               ContainsSubstring("names 1 axes, expected 2 for its shape (1, 2)"));
    CHECK_THAT(changed([](Step& s) { s.formula = "\xff"; }), ContainsSubstring("UTF-8"));
    CHECK_THAT(changed([](Step& s) { s.options.emplace_back("scale", ""); }), ContainsSubstring("twice"));
    CHECK_THAT(changed([](Step& s) { s.options.emplace_back("\xff", ""); }), ContainsSubstring("UTF-8"));
    CHECK_THAT(changed([](Step& s) { s.value.type = ElementType::boolean; }), ContainsSubstring("head.0.masked"));

    const TemporaryFolder folder;
    CHECK_THROWS_WITH(write_trace(folder / "t.npz", {{good, good}, {}}), ContainsSubstring("two steps are called"));
    CHECK_THROWS_WITH(write_trace(folder / "t.npz", {{good}, {{"output", "nowhere"}}}),
                      ContainsSubstring("alias \"output\" means \"nowhere\", which is no step"));
    CHECK_THROWS_WITH(write_trace(folder / "t.npz", {{good}, {{good.path, good.path}}}),
                      ContainsSubstring("two steps are called"));
    CHECK_THROWS_WITH(write_trace(folder / "t.npz", {{good}, {{"a/b", good.path}}}),
                      ContainsSubstring("alias \"a/b\""));
    CHECK(folder.count() == 0);
}

TEST_CASE("a step of a foreign trace needs no key but its path", "[trace_io][trace_file]")
{
    CHECK(refused_trace(R"([{"path": "a"}])") == "accepted");
    CHECK(refused_trace(step_json(R"("shape": [2, 3], "axes": ["n", "m"], "more": {"is": ["ignored"]})")) ==
          "accepted");
    CHECK(refused_trace(step_json(R"("axes": [])")) == "accepted");
}

TEST_CASE("a file without steps.json is no trace, and says so", "[trace_io][trace_file]")
{
    const TemporaryFolder folder;
    write_npz(folder / "t.npz", {{}, {{"a", {{}, {1}}}}, ""});
    CHECK_THROWS_WITH(read_trace(folder / "t.npz"), ContainsSubstring("no member steps.json"));
}

TEST_CASE("steps.json must be a list of steps", "[trace_io][trace_file]")
{
    CHECK_THAT(refused_trace(""), ContainsSubstring("is no JSON"));
    CHECK_THAT(refused_trace("[{]"), ContainsSubstring("is no JSON"));
    CHECK_THAT(refused_trace("[]x"), ContainsSubstring("is no JSON"));
    CHECK_THAT(refused_trace("1"),
               ContainsSubstring("is a JSON number, expected an object with the lists steps and aliases"));
    CHECK_THAT(refused_trace("{}"), ContainsSubstring("has null as its steps, expected a list"));
    CHECK_THAT(refused_trace("null"), ContainsSubstring("is null"));
    CHECK_THAT(refused_trace("[1]"), ContainsSubstring("steps.json[0] is a JSON number"));
    CHECK_THAT(refused_trace("[{}]"), ContainsSubstring("steps.json[0] has no \"path\""));
    CHECK_THAT(refused_trace(R"([{"path": 1}])"), ContainsSubstring("steps.json[0] has no \"path\""));
    CHECK_THAT(refused_trace("[{\"path\": \"a\xff\"}]"), ContainsSubstring("is no JSON"));
    CHECK_THAT(refused_trace(R"([{"path": "a\u000a"}])"), ContainsSubstring("step \"a\\n\""));
}

TEST_CASE("every key of a step must be of its kind", "[trace_io][trace_file]")
{
    CHECK_THAT(refused_trace(step_json(R"("formula": 1)")),
               ContainsSubstring("step \"a\" has a JSON number as its formula"));
    CHECK_THAT(refused_trace(step_json(R"("module": null)")), ContainsSubstring("has null as its module"));
    CHECK_THAT(refused_trace(step_json(R"("axes": "nm")")), ContainsSubstring("axes, expected a list of strings"));
    CHECK_THAT(refused_trace(step_json(R"("axes": [1, 2])")), ContainsSubstring("expected strings"));
    CHECK_THAT(refused_trace(step_json(R"("options": [])")), ContainsSubstring("expected an object of strings"));
    CHECK_THAT(refused_trace(step_json(R"("options": {"scale": 2})")),
               ContainsSubstring("its option \"scale\", expected a string"));
    CHECK_THAT(refused_trace(step_json(R"("shape": 6)")), ContainsSubstring("expected a list of whole numbers"));
    for (const std::string size : {"-2", "2.0", "\"2\"", "null", "1e999", "[2]"})
        CHECK(refused_trace(step_json("\"shape\": [" + size + ", 3]")) != "accepted");
    CHECK(refused_trace(step_json("\"shape\": [99999999999999999999, 3]")) != "accepted");
}

TEST_CASE("steps and arrays must match", "[trace_io][trace_file]")
{
    CHECK_THAT(refused_trace(step_json(R"("shape": [3, 2])")),
               ContainsSubstring("step \"a\" has the shape (3, 2) in steps.json, but its array is (2, 3)"));
    CHECK_THAT(refused_trace(step_json(R"("shape": [6])")), ContainsSubstring("(6,)"));
    CHECK_THAT(refused_trace(step_json(R"("axes": ["n"])")),
               ContainsSubstring("names 1 axes, expected 2 for its shape (2, 3)"));
    CHECK_THAT(refused_trace(R"([{"path": "b"}])"),
               ContainsSubstring("step \"b\" has no array; expected the member b.npy"));
    CHECK_THAT(refused_trace("[]"), ContainsSubstring("has the array \"a\", which no step or alias"));
    CHECK_THAT(refused_trace(R"([{"path": "a"}, {"path": "a"}])"), ContainsSubstring("two steps are called \"a\""));
}

TEST_CASE("a trace of a later format is refused, another's note is not", "[trace_io][trace_file]")
{
    CHECK_THAT(refused_trace(R"([{"path": "a"}])", {"a"}, "attn trace 3"), ContainsSubstring("newer attn"));
    CHECK_THAT(refused_trace(R"({"format": "attn trace 3", "steps": [{"path": "a"}]})"),
               ContainsSubstring("newer attn"));
    CHECK(refused_trace(R"([{"path": "a"}])", {"a"}, "attn trace 1") == "accepted"); // a list of steps is version 1
    CHECK(refused_trace(R"([{"path": "a"}])", {"a"}, "made by hand") == "accepted");
    CHECK(refused_trace(R"({"steps": [{"path": "a"}], "aliases": [{"path": "b", "target": "a"}]})") == "accepted");
}

TEST_CASE("other names in a file must be names of steps", "[trace_io][trace_file]")
{
    const auto with = [](const std::string& aliases) {
        return refused_trace(R"({"steps": [{"path": "a"}], "aliases": )" + aliases + "}");
    };
    CHECK(with("[]") == "accepted");
    CHECK_THAT(with(R"([{"path": "b", "target": "c"}])"), ContainsSubstring("which is no step"));
    CHECK_THAT(with(R"([{"path": "a", "target": "a"}])"), ContainsSubstring("two steps are called"));
    for (const std::string aliases :
         {"{}", "null", "[1]", R"([{"path": "b"}])", R"([{"target": "a"}])", R"([{"path": 1, "target": "a"}])"})
        CHECK(with(aliases) != "accepted");
}

TEST_CASE("deep nesting is refused before it can exhaust the stack", "[trace_io][trace_file]")
{
    const std::string open_lists(1'000'000, '[');
    std::string open_objects;
    for (int level = 0; level < 200'000; ++level)
        open_objects += "{\"a\":";
    CHECK_THAT(refused_trace(open_lists), ContainsSubstring("nested more than 5 deep"));
    CHECK_THAT(refused_trace(open_lists + std::string(1'000'000, ']')), ContainsSubstring("nested more than 5 deep"));
    CHECK_THAT(refused_trace("[" + open_objects), ContainsSubstring("nested more than 5 deep"));
    CHECK_THAT(refused_trace(step_json("\"axes\": " + open_lists)), ContainsSubstring("nested more than 5 deep"));
}

TEST_CASE("a trace with any byte of its list changed gives a FileError or a trace, never a crash",
          "[trace_io][trace_file]")
{
    const std::string list =
        step_json(R"("formula": "x @ y", "shape": [2, 3], "axes": ["n", "m"], "options": {"k": "v"})");
    for (std::size_t place = 0; place < list.size(); ++place)
        for (const char c : {'\0', '[', ']', '{', '}', '"', ',', '1', '\\', '\x80'}) {
            std::string changed = list;
            changed[place] = c;
            refused_trace(changed);
        }
}
