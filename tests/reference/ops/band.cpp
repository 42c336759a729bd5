#include "attn/reference/ops/band.hpp"

#include "attn/core/shape.hpp"

#include "by_hand.hpp"
#include "test.hpp"

using namespace attn;
using namespace attn::test;

namespace {

/// The row before, the row itself and the row after, of three rows.
const Band three{{-1, 0, 1}, {{false, true, true}, {true, true, true}, {true, true, false}}};

} // namespace

TEST_CASE("rows are multiplied with their neighbours, by hand", "[ops][band]")
{
    const Matrix left{{1, 2}, {3, 4}, {5, 6}}, right{{1, 0}, {0, 1}, {2, 2}};
    CHECK(same_bits(banded_scores(left, right, three), Matrix{{0, 1, 2}, {3, 4, 14}, {6, 22, 0}}));
}

TEST_CASE("sum_of_neighbours weights each neighbour's values, by hand", "[ops][band]")
{
    const Matrix weights{{100, 1, 2}, {3, 4, 5}, {6, 7, 100}}, values{{1, 10}, {2, 20}, {3, 30}};
    CHECK(same_bits(sum_of_neighbours(weights, values, three), Matrix{{5, 50}, {26, 260}, {33, 330}}));
}

TEST_CASE("what the mask of a band forbids is not read, even if it is NaN", "[ops][band]")
{
    const Band none{{-1, 0, 1}, {{false, false, false}, {false, true, false}, {false, false, false}}};
    const Matrix ones{{1}, {1}, {1}};
    CHECK(same_bits(banded_scores(ones, Matrix{{NAN}, {2}, {NAN}}, none), Matrix{{0, 0, 0}, {0, 2, 0}, {0, 0, 0}}));
    CHECK(same_bits(sum_of_neighbours(Matrix{{NAN, 1, 1}, {1, 3, 1}, {1, 1, NAN}}, ones, none), Matrix{{0}, {3}, {0}}));
}

TEST_CASE("a band that lists its neighbours uses these rows instead of the distances", "[ops][band]")
{
    const Matrix left{{1, 2}, {3, 4}}, right{{1, 0}, {0, 1}};
    const Band crossed{{0}, {{true}, {true}}, IntegerMatrix{{1}, {0}}};
    CHECK(same_bits(banded_scores(left, right, crossed), Matrix{{2}, {3}}));
    CHECK(same_bits(sum_of_neighbours(Matrix{{10}, {1}}, left, crossed), Matrix{{30, 40}, {1, 2}}));
    const Band beyond{{0}, {{true}, {false}}, IntegerMatrix{{2}, {7}}};
    CHECK_THROWS_WITH(banded_scores(left, right, beyond), ContainsSubstring("row 0 is row 2, expected 0 to 1"));
    const Band narrow{{0}, {{true}, {true}}, IntegerMatrix{{1}}};
    CHECK_THROWS_WITH(banded_scores(left, right, narrow), ContainsSubstring("neighbours (1, 1) and a mask (2, 1)"));
}

TEST_CASE("each sequence of a batch has the same band", "[ops][band][batch]")
{
    const Matrix left{{1, 2}, {3, 4}, {5, 6}}, right{{1, 0}, {0, 1}, {2, 2}};
    Tensor3 lefts(Tensor3::shape_type{2, 3, 2}), rights(Tensor3::shape_type{2, 3, 2});
    for (std::size_t b = 0; b < 2; ++b) {
        xt::view(lefts, b, xt::all(), xt::all()) = left + static_cast<double>(b);
        xt::view(rights, b, xt::all(), xt::all()) = right;
    }
    const Tensor3 scores = banded_scores(lefts, rights, three), sums = sum_of_neighbours(scores, lefts, three);
    for (std::size_t b = 0; b < 2; ++b) {
        const Matrix alone = left + static_cast<double>(b);
        const Matrix expected = banded_scores(alone, right, three);
        CHECK(same_bits(Matrix(xt::view(scores, b, xt::all(), xt::all())), expected));
        CHECK(same_bits(Matrix(xt::view(sums, b, xt::all(), xt::all())), sum_of_neighbours(expected, alone, three)));
    }
    CHECK_THROWS_WITH(banded_scores(lefts, Tensor3(Tensor3::shape_type{1, 3, 2}), three),
                      ContainsSubstring("must agree in b"));
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
                      ContainsSubstring("a neighbour of row 0 is row -1, expected 0 to 2"));
    CHECK_THROWS_AS(sum_of_neighbours(narrow, narrow, {{5}, {{true}, {true}, {true}}}), ShapeError);
}
