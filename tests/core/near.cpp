#include "attn/core/near.hpp"

#include "test.hpp"

using namespace attn;

TEST_CASE("a number is off by so many tolerances, and an infinity agrees with itself alone", "[near]")
{
    CHECK(times_off(1.5, 1, 0.25) == 2);
    CHECK(times_off(1, 1, 0) == 0);
    CHECK(times_off(1.5, 1, 0) == infinity);
    CHECK(times_off(not_a_number, not_a_number, 1) == 0);
    CHECK(times_off(not_a_number, 1, 1) == infinity);
    CHECK(times_off(1, not_a_number, 1) == infinity);
    CHECK(times_off(infinity, infinity, 1) == 0);
    CHECK(times_off(infinity, -infinity, 1) == infinity);
    CHECK(times_off(infinity, 1, infinity) == 0); // where everything can be right
}

TEST_CASE("the largest number of an array is finite", "[near]")
{
    CHECK(largest_of({{4}, {1, -3, infinity, not_a_number}}) == 3);
    CHECK(largest_of({{0}, {}}) == 0);
}
