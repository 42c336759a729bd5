#include "attn/ops/band.hpp"

#include "attn/shape.hpp"

#include "by_hand.hpp"
#include "test.hpp"

using namespace attn;
using namespace attn::test;

namespace {

/// Each of three rows, the row before it and the one behind it.
const Band three{{-1, 0, 1}, {{false, true, true}, {true, true, true}, {true, true, false}}};

} // namespace

TEST_CASE("rows are multiplied with their neighbours, by hand", "[ops][band]")
{
    const Matrix left{{1, 2}, {3, 4}, {5, 6}}, right{{1, 0}, {0, 1}, {2, 2}};
    CHECK(same_bits(banded_scores(left, right, three), Matrix{{0, 1, 2}, {3, 4, 14}, {6, 22, 0}}));
}

TEST_CASE("neighbours are summed in their proportions, by hand", "[ops][band]")
{
    const Matrix weights{{100, 1, 2}, {3, 4, 5}, {6, 7, 100}}, values{{1, 10}, {2, 20}, {3, 30}};
    CHECK(same_bits(sum_of_neighbours(weights, values, three), Matrix{{5, 50}, {26, 260}, {33, 330}}));
}

TEST_CASE("what the mask forbids is not looked at", "[ops][band]")
{
    const Band none{{-1, 0, 1}, {{false, false, false}, {false, true, false}, {false, false, false}}};
    const Matrix ones{{1}, {1}, {1}};
    CHECK(same_bits(banded_scores(ones, Matrix{{NAN}, {2}, {NAN}}, none),
                    Matrix{{0, 0, 0}, {0, 2, 0}, {0, 0, 0}}));
    CHECK(same_bits(sum_of_neighbours(Matrix{{NAN, 1, 1}, {1, 3, 1}, {1, 1, NAN}}, ones, none), Matrix{{0}, {3}, {0}}));
}

TEST_CASE("bands that don't fit are refused in words", "[ops][band]")
{
    const Matrix three_rows{{1, 1}, {1, 1}, {1, 1}}, two_rows{{1, 1}, {1, 1}}, narrow{{1}, {1}, {1}};
    CHECK_THROWS_WITH(banded_scores(three_rows, two_rows, three),
                      ContainsSubstring("left (3, 2) and right (2, 2) must agree in n"));
    CHECK_THROWS_WITH(banded_scores(three_rows, narrow, three), ContainsSubstring("must agree in k"));
    CHECK_THROWS_WITH(banded_scores(two_rows, two_rows, three), ContainsSubstring("must agree in n"));
    CHECK_THROWS_WITH(banded_scores(three_rows, three_rows, {{0}, three.mask}),
                      ContainsSubstring("a band of 1 distances has a mask (3, 3)"));
    CHECK_THROWS_WITH(sum_of_neighbours(three_rows, three_rows, three), ContainsSubstring("must agree in width"));

    const Band outside{{-1}, {{true}, {true}, {true}}};
    CHECK_THROWS_WITH(banded_scores(narrow, narrow, outside),
                      ContainsSubstring("a neighbour of row 0 at the distance -1, there are only 3 rows"));
    CHECK_THROWS_AS(sum_of_neighbours(narrow, narrow, {{5}, {{true}, {true}, {true}}}), ShapeError);
}
