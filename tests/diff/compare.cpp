#include "src/diff/compare.hpp"

#include "test.hpp"

#include <vector>

using namespace attn;
using namespace attn::diff;

namespace {

Array row(const std::vector<double>& values) { return {{values.size()}, values}; }

} // namespace

TEST_CASE("numbers are the same where both have one shape and each equals the other, NaN as well", "[diff][compare]")
{
    const Array numbers = row({1, not_a_number, infinity, 0});
    CHECK(same_numbers(numbers, numbers));
    CHECK(same_numbers(numbers, row({1, not_a_number, infinity, -0.0})));
    CHECK_FALSE(same_numbers(numbers, row({1, 2, infinity, 0})));
    CHECK_FALSE(same_numbers(row({1, 2}), {{2, 1}, {1, 2}}));
    std::vector<double> many(10000, 0.5), other = many;
    CHECK(same_numbers(row(many), row(other)));
    other.back() = 0.25; // beyond the first chunks
    CHECK_FALSE(same_numbers(row(many), row(other)));
}

TEST_CASE("a row is empty where all of its numbers are zero", "[diff][compare]")
{
    CHECK(has_empty_row({{2, 2}, {0, 0, 1, 0}}));
    CHECK(has_empty_row({{2, 2}, {0, 1, 0, 0}}));
    CHECK_FALSE(has_empty_row({{2, 2}, {1, 0, 0, 1}}));
    CHECK_FALSE(has_empty_row({{}, {0}})); // a number is no row
}

TEST_CASE("the distance of two arrays has the worst number, the largest differences and the cosine", "[diff][compare]")
{
    const Array expected = row({4, 3, 0}), found = row({3, 4, 0});
    const Distance distance = distance_of(found, expected, expected, {.common = 0.5}, NumberType::float64);
    CHECK(distance.differing == 2);
    CHECK(distance.beyond == 2);
    CHECK(distance.worst == Shape{0});
    CHECK(distance.absolute == 1);
    CHECK(distance.relative == Approx(1.0 / 3));
    CHECK(distance.cosine == Approx(24.0 / 25)); // (3, 4) * (4, 3) over 5 * 5
    const Distance none = distance_of(found, found, found, {}, NumberType::float64);
    CHECK(none.differing == 0);
    CHECK(none.cosine == Approx(1));
}

TEST_CASE("the place of a number is named by its head and by the words for its axes", "[diff][compare]")
{
    CHECK(place_of({"head.3.scores", "", {"n", "m"}, "", {}, {{2, 2}, {1, 2, 3, 4}}}, {1, 0}) ==
          "head 3, query 1, key 0");
    CHECK(place_of({"w", "", {}, "", {}, {{2}, {1, 2}}}, {1}).empty());
}
