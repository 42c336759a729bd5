#include "attn/core/shape.hpp"

#include "../test.hpp"

using namespace attn;

TEST_CASE("axes of one size agree, wherever they are", "[shape]")
{
    const Matrix left(Matrix::shape_type{3, 4});
    const Tensor3 right(Tensor3::shape_type{5, 4, 3});
    CHECK_NOTHROW(expect_agreement("f", "k", {"left", left, 1}, {"right", right, 1}));
    CHECK_NOTHROW(expect_agreement("f", "n", {"left", left, 0}, {"right", right, 2}));
}

TEST_CASE("a disagreement names the function, both roles, both shapes, the letter and the sizes", "[shape]")
{
    const Matrix left(Matrix::shape_type{3, 4});
    const Matrix right(Matrix::shape_type{5, 2});
    const auto disagree = [&] { expect_agreement("matmul", "k", {"left", left, 1}, {"right", right, 0}); };
    CHECK_THROWS_AS(disagree(), ShapeError);
    CHECK_THROWS_WITH(disagree(), "matmul: left (3, 4) and right (5, 2) must agree in k: "
                                  "axis 1 of left is 4, axis 0 of right is 5");
}

TEST_CASE("an empty axis and an axis of one disagree: nothing is broadcast", "[shape]")
{
    const Vector none(Vector::shape_type{0});
    const Vector one(Vector::shape_type{1});
    const Vector two(Vector::shape_type{2});
    CHECK_THROWS_AS(expect_agreement("f", "k", {"none", none, 0}, {"one", one, 0}), ShapeError);
    CHECK_THROWS_AS(expect_agreement("f", "k", {"one", one, 0}, {"two", two, 0}), ShapeError);
}

TEST_CASE("a mask has axes like any tensor", "[shape]")
{
    const Mask mask(Mask::shape_type{2, 3});
    const Matrix scores(Matrix::shape_type{2, 4});
    CHECK_NOTHROW(expect_agreement("f", "n", {"scores", scores, 0}, {"mask", mask, 0}));
    CHECK_THROWS_WITH(expect_agreement("f", "m", AxisOf("scores", scores, 1), AxisOf("mask", mask, 1)),
                      ContainsSubstring("mask (2, 3)"));
}

TEST_CASE("a shape error can be caught as an error of the user's", "[shape]")
{
    const Vector one(Vector::shape_type{1});
    const Vector two(Vector::shape_type{2});
    CHECK_THROWS_AS(expect_agreement("f", "k", {"one", one, 0}, {"two", two, 0}), Error);
}
