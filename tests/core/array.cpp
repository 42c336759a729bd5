#include "attn/core/array.hpp"

#include "attn/core/error.hpp"

#include "../test.hpp"

#include <limits>
#include <numeric>
#include <vector>

using namespace attn;

TEST_CASE("a shape counts its elements", "[array]")
{
    CHECK(element_count({}) == 1);
    CHECK(element_count({3, 4}) == 12);
    CHECK(element_count({3, 0, 4}) == 0);
}

TEST_CASE("a shape whose product overflows is refused, unless it is empty", "[array]")
{
    const std::size_t huge = std::numeric_limits<std::size_t>::max() / 2;
    CHECK_THROWS_AS(element_count({huge, 3}), Error);
    CHECK(element_count({huge, 3, 0}) == 0);
}

TEST_CASE("a shape prints as NumPy prints it", "[array]")
{
    CHECK(to_string(Shape{}) == "()");
    CHECK(to_string(Shape{3}) == "(3,)");
    CHECK(to_string(Shape{3, 4}) == "(3, 4)");
}

TEST_CASE("an offset is turned into its index, the last axis fastest", "[array]")
{
    CHECK(index_at(0, {2, 3}) == Shape{0, 0});
    CHECK(index_at(5, {2, 3}) == Shape{1, 2});
    CHECK(index_at(7, {2, 2, 3}) == Shape{1, 0, 1});
}

TEST_CASE("arrays are identical when their bits are", "[array]")
{
    const double nan = std::numeric_limits<double>::quiet_NaN();
    CHECK(identical({{2}, {nan, 1}}, {{2}, {nan, 1}}));
    CHECK_FALSE(identical({{1}, {0.0}}, {{1}, {-0.0}}));
    CHECK_FALSE(identical({{1, 2}, {1, 2}}, {{2}, {1, 2}}));
    CHECK_FALSE(identical({{1}, {1}}, {{1}, {1}, ElementType::boolean}));
}

TEST_CASE("axes are permuted as in NumPy, and each axis must be given exactly once", "[array]")
{
    Array array{{2, 3, 4}, std::vector<double>(24)};
    std::iota(array.values.begin(), array.values.end(), 0);
    // np.arange(24).reshape(2, 3, 4).transpose(2, 0, 1)
    const std::vector<double> expected{0, 4, 8,  12, 16, 20, 1, 5, 9,  13, 17, 21,
                                       2, 6, 10, 14, 18, 22, 3, 7, 11, 15, 19, 23};
    CHECK(identical(permuted(array, {2, 0, 1}), {{4, 2, 3}, expected}));
    CHECK(identical(permuted(array, {0, 1, 2}), array));
    CHECK(identical(permuted({{}, {7}, ElementType::integer}, {}), {{}, {7}, ElementType::integer}));
    CHECK(identical(permuted({{0, 3}, {}}, {1, 0}), {{3, 0}, {}}));
    for (const std::vector<std::size_t>& order : {std::vector<std::size_t>{0, 1}, {0, 1, 1}, {0, 1, 3}, {0, 1, 2, 3}})
        CHECK_THROWS_WITH(permuted(array, order), "permute needs each of the 3 axes once");
}

TEST_CASE("a number is read from the beginning of a text, whatever the locale, and what can't be one is not", "[array]")
{
    const auto read = [](std::string_view text) {
        const std::optional<double> number = take_number(text);
        return std::pair(number, text);
    };
    using Read = std::pair<std::optional<double>, std::string_view>;
    CHECK(read("12") == Read{12, ""});
    CHECK(read("-0.5)") == Read{-0.5, ")"});
    CHECK(read("1.5e-3+2") == Read{1.5e-3, "+2"});
    CHECK(read("3e*2") == Read{3, "e*2"});
    CHECK(read("2.T") == Read{2, "T"});
    CHECK(read(".5f") == Read{0.5, "f"});
    CHECK(read("0x10") == Read{0, "x10"});
    CHECK(read("0e9999") == Read{0, ""});
    CHECK(read("1e23") == Read{1e23, ""});
    for (const std::string_view text : {"", "-", ".", "e5", "+1", "inf", "nan", " 1", "1e400", "-1e-400"})
        CHECK(read(text) == Read{std::nullopt, text});
    for (const double number : {0.1, -1 / 3.0, 5e-324, 1.7976931348623157e308, 2.2250738585072014e-308})
        CHECK(read(exact_text(number)) == Read{number, ""});
    try {
        const std::locale before = std::locale::global(std::locale("de_DE.UTF-8"));
        CHECK(read("1.5") == Read{1.5, ""});
        std::locale::global(before);
    } catch (const std::runtime_error&) { // this system has no such locale
    }
}
