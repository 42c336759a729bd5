#include "attn/core/choices.hpp"

#include "test.hpp"

#include "attn/core/number_type.hpp"

using namespace attn;

namespace {

enum class Fruit { apple, pear, plum };

constexpr Choice<Fruit> all_fruits[] = {{Fruit::apple, "apple"}, {Fruit::pear, "pear"}, {Fruit::plum, "plum"}};
constexpr Choice<Fruit> without_last[] = {{Fruit::apple, "apple"}, {Fruit::pear, "pear"}};
constexpr Choice<Fruit> without_first[] = {{Fruit::pear, "pear"}, {Fruit::plum, "plum"}};
constexpr Choice<Fruit> swapped[] = {{Fruit::pear, "pear"}, {Fruit::apple, "apple"}, {Fruit::plum, "plum"}};
constexpr Choice<Fruit> twice[] = {{Fruit::apple, "apple"}, {Fruit::apple, "apple"}, {Fruit::plum, "plum"}};

} // namespace

TEST_CASE("the enumerators of an enum are those that its definition names", "[choices]")
{
    STATIC_REQUIRE(enumerators<Fruit> == std::array{Fruit::apple, Fruit::pear, Fruit::plum});
    STATIC_REQUIRE_FALSE(is_enumerator<static_cast<Fruit>(3)>());
    STATIC_REQUIRE(enumerators<NumberType>.back() == NumberType::float8_e5m2);
}

TEST_CASE("a table is complete where each enumerator has its row at its place", "[choices]")
{
    STATIC_REQUIRE(is_complete<all_fruits>);
    STATIC_REQUIRE_FALSE(is_complete<without_last>);
    STATIC_REQUIRE_FALSE(is_complete<without_first>);
    STATIC_REQUIRE_FALSE(is_complete<swapped>);
    STATIC_REQUIRE_FALSE(is_complete<twice>);
    for (const Fruit fruit : enumerators<Fruit>)
        CHECK(row_for<all_fruits>(fruit).choice == fruit);
}

TEST_CASE("a table of some choices has a row for each once, in order, and none for others", "[choices]")
{
    STATIC_REQUIRE(is_in_order<without_first>);
    STATIC_REQUIRE_FALSE(is_in_order<swapped>);
    STATIC_REQUIRE_FALSE(is_in_order<twice>);
    CHECK(find_row<without_first>(Fruit::plum)->name == "plum");
    CHECK(find_row<without_first>(Fruit::apple) == nullptr);
}
