#include "attn/ops/concat.hpp"

#include "by_hand.hpp"
#include "generators.hpp"
#include "test.hpp"

#include "attn/shape.hpp"

using namespace attn;
using namespace attn::test;

TEST_CASE("one vector follows the other", "[ops][concat]")
{
    const Vector none(Vector::shape_type{0});
    CHECK(same_bits(concat(Vector{1, 2}, Vector{3}), Vector{1, 2, 3}));
    CHECK(same_bits(concat(none, Vector{3}), Vector{3}));
    CHECK(same_bits(concat(Vector{3}, none), Vector{3}));
    CHECK(concat(none, none).size() == 0);
}

TEST_CASE("one matrix stands on top of the other", "[ops][concat]")
{
    CHECK(same_bits(concat_rows(Matrix{{1, 2}}, Matrix{{3, 4}, {5, 6}}), Matrix{{1, 2}, {3, 4}, {5, 6}}));
    CHECK(same_bits(concat_rows(Matrix{{1}, {2}}, Matrix{{3}}), Matrix{{1}, {2}, {3}}));
    CHECK(same_bits(concat_rows(Matrix(Matrix::shape_type{0, 2}), Matrix{{3, 4}}), Matrix{{3, 4}}));
    CHECK(shape_of(concat_rows(Matrix(Matrix::shape_type{2, 0}), Matrix(Matrix::shape_type{1, 0}))) == Shape{3, 0});
}

TEST_CASE("matrices of different width do not stand on top of each other", "[ops][concat]")
{
    const Matrix narrow(Matrix::shape_type{2, 1});
    const Matrix wide(Matrix::shape_type{2, 3});
    CHECK_THROWS_AS(concat_rows(narrow, wide), ShapeError);
    CHECK_THROWS_WITH(concat_rows(narrow, wide), ContainsSubstring("concat_rows: first (2, 1) and second (2, 3)"));
}
