#include "attn/reference/ops/matmul.hpp"

#include "by_hand.hpp"
#include "generators.hpp"
#include "test.hpp"

#include "attn/core/shape.hpp"

#include <concepts>
#include <utility>

using namespace attn;
using namespace attn::test;

namespace {

/// Sizes at which strides and BLAS have their special cases, and one beyond a BLAS kernel's tile.
const std::size_t sizes[] = {0, 1, 2, 3, 5, 17};

Matrix column(const Vector& vector)
{
    Matrix result(Matrix::shape_type{vector.size(), 1});
    for (std::size_t i = 0; i < vector.size(); ++i)
        result(i, 0) = vector(i);
    return result;
}

Vector flattened(const Matrix& matrix) { return from_array<Vector>({{matrix.size()}, to_array(matrix).values}); }

Matrix slice_by_hand(const Tensor3& tensor, std::size_t i)
{
    Matrix result(Matrix::shape_type{tensor.shape(1), tensor.shape(2)});
    for (std::size_t j = 0; j < tensor.shape(1); ++j)
        for (std::size_t k = 0; k < tensor.shape(2); ++k)
            result(j, k) = tensor(i, j, k);
    return result;
}

} // namespace

TEST_CASE("matmul of matrices is the plain triple loop, at sizes zero and one too", "[ops][matmul]")
{
    Numbers numbers(1);
    for (const std::size_t n : sizes)
        for (const std::size_t k : sizes)
            for (const std::size_t m : sizes) {
                CAPTURE(n, k, m);
                const Matrix left = numbers.matrix(n, k);
                const Matrix right = numbers.matrix(k, m);
                CHECK(close(matmul(left, right), product_by_hand(left, right)));
            }
}

TEST_CASE("a matrix times a vector is one dot product per row", "[ops][matmul]")
{
    Numbers numbers(2);
    for (const std::size_t n : sizes)
        for (const std::size_t k : sizes) {
            CAPTURE(n, k);
            const Matrix left = numbers.matrix(n, k);
            const Vector right = numbers.vector(k);
            CHECK(close(matmul(left, right), flattened(product_by_hand(left, column(right)))));
        }
}

TEST_CASE("a vector times a matrix is the sum of the matrix's rows, weighted by the vector", "[ops][matmul]")
{
    Numbers numbers(3);
    for (const std::size_t k : sizes)
        for (const std::size_t m : sizes) {
            CAPTURE(k, m);
            const Vector left = numbers.vector(k);
            const Matrix right = numbers.matrix(k, m);
            CHECK(close(matmul(left, right), flattened(product_by_hand(transpose_by_hand(column(left)), right))));
        }
}

TEST_CASE("each matrix of a stack is multiplied with the same vector", "[ops][matmul]")
{
    Numbers numbers(4);
    for (const std::size_t b : {0, 1, 3})
        for (const std::size_t n : {0, 1, 4})
            for (const std::size_t k : {0, 1, 5}) {
                CAPTURE(b, n, k);
                const Tensor3 left = numbers.tensor3(b, n, k);
                const Vector right = numbers.vector(k);
                const Matrix product = matmul(left, right);
                REQUIRE(shape_of(product) == Shape{b, n});
                for (std::size_t i = 0; i < b; ++i) {
                    const Matrix expected = product_by_hand(slice_by_hand(left, i), column(right));
                    CHECK(close(flattened(row_by_hand(product, i)), flattened(expected)));
                }
            }
}

TEST_CASE("matrices of two stacks are multiplied pair by pair", "[ops][matmul]")
{
    Numbers numbers(5);
    for (const std::size_t b : {0, 1, 3})
        for (const std::size_t n : {0, 1, 4})
            for (const std::size_t k : {0, 1, 5})
                for (const std::size_t m : {0, 1, 2}) {
                    CAPTURE(b, n, k, m);
                    const Tensor3 left = numbers.tensor3(b, n, k);
                    const Tensor3 right = numbers.tensor3(b, k, m);
                    const Tensor3 product = matmul(left, right);
                    REQUIRE(shape_of(product) == Shape{b, n, m});
                    for (std::size_t i = 0; i < b; ++i)
                        CHECK(close(slice_by_hand(product, i),
                                    product_by_hand(slice_by_hand(left, i), slice_by_hand(right, i))));
                }
}

TEST_CASE("a dot product is the sum of products, zero of nothing", "[ops][matmul]")
{
    CHECK(dot(Vector{1, 2, 3}, Vector{4, -5, 6}) == 12);
    CHECK(dot(Vector{2}, Vector{3}) == 6);
    CHECK(dot(Vector(Vector::shape_type{0}), Vector(Vector::shape_type{0})) == 0);
}

TEST_CASE("an outer product has the product of every pair of numbers", "[ops][matmul]")
{
    CHECK(same_bits(outer(Vector{1, 2}, Vector{3, 4, 5}), Matrix{{3, 4, 5}, {6, 8, 10}}));
    Numbers numbers(6);
    for (const std::size_t n : sizes)
        for (const std::size_t m : sizes) {
            CAPTURE(n, m);
            const Vector left = numbers.vector(n);
            const Vector right = numbers.vector(m);
            CHECK(close(outer(left, right), product_by_hand(column(left), transpose_by_hand(column(right)))));
        }
}

TEST_CASE("transpose turns rows into columns, in storage of its own", "[ops][matmul]")
{
    Numbers numbers(7);
    for (const std::size_t n : sizes)
        for (const std::size_t m : sizes) {
            CAPTURE(n, m);
            const Matrix matrix = numbers.matrix(n, m);
            CHECK(same_bits(transpose(matrix), transpose_by_hand(matrix)));
            CHECK(same_bits(transpose(transpose(matrix)), matrix));
        }
    Matrix matrix{{1, 2}};
    const Matrix transposed = transpose(matrix);
    matrix(0, 0) = 7;
    CHECK(transposed(0, 0) == 1);
}

TEST_CASE("transpose gives a matrix, not a view, of whatever matrix it is given", "[ops][matmul]")
{
    Matrix matrix{{1, 2}, {3, 4}};
    CHECK(std::same_as<decltype(transpose(std::as_const(matrix))), Matrix>);
    CHECK(std::same_as<decltype(transpose(matrix)), Matrix>);
    CHECK(std::same_as<decltype(transpose(matmul(matrix, matrix))), Matrix>);
    CHECK(same_bits(matmul(matrix, transpose(matmul(matrix, matrix))), Matrix{{27, 59}, {61, 133}}));
}

TEST_CASE("NaN and infinity in a row reach the products of that row only", "[ops][matmul]")
{
    const double nan = std::nan("");
    const Matrix product = matmul(Matrix{{1, nan}, {1, 2}}, Matrix{{1, 2}, {3, 4}});
    CHECK(std::isnan(product(0, 0)));
    CHECK(std::isnan(product(0, 1)));
    CHECK(product(1, 0) == 7);
    CHECK(product(1, 1) == 10);
}

TEST_CASE("products of tensors that disagree are refused, and both shapes named", "[ops][matmul]")
{
    const Matrix m34(Matrix::shape_type{3, 4});
    const Matrix m52(Matrix::shape_type{5, 2});
    const Matrix m14(Matrix::shape_type{1, 4});
    const Vector v1(Vector::shape_type{1});
    const Vector v5(Vector::shape_type{5});
    const Tensor3 t234(Tensor3::shape_type{2, 3, 4});
    const Tensor3 t145(Tensor3::shape_type{1, 4, 5});
    const Tensor3 t235(Tensor3::shape_type{2, 3, 5});
    CHECK_THROWS_WITH(matmul(m34, m52), "matmul: left (3, 4) and right (5, 2) must agree in k: "
                                        "axis 1 of left is 4, axis 0 of right is 5");
    CHECK_THROWS_AS(matmul(m34, m14), ShapeError);
    CHECK_THROWS_AS(matmul(m34, v5), ShapeError);
    CHECK_THROWS_AS(matmul(m34, v1), ShapeError);
    CHECK_THROWS_WITH(matmul(v5, m34), ContainsSubstring("left (5,) and right (3, 4)"));
    CHECK_THROWS_AS(matmul(t234, v5), ShapeError);
    CHECK_THROWS_WITH(matmul(t234, t145), ContainsSubstring("must agree in b"));
    CHECK_THROWS_WITH(matmul(t234, t235), ContainsSubstring("must agree in k"));
    CHECK_THROWS_WITH(dot(v1, v5), ContainsSubstring("dot: left (1,) and right (5,)"));
}

TEST_CASE("each matrix of a stack is multiplied with the same matrix, at sizes zero and one too",
          "[ops][matmul][batch]")
{
    Numbers numbers(10);
    for (const std::size_t b : {1, 2, 3})
        for (const std::size_t n : sizes)
            for (const std::size_t k : {0, 1, 5})
                for (const std::size_t m : {0, 1, 4}) {
                    CAPTURE(b, n, k, m);
                    const Tensor3 left = numbers.tensor3(b, n, k);
                    const Matrix right = numbers.matrix(k, m);
                    const Tensor3 product = matmul(left, right);
                    REQUIRE(shape_of(product) == Shape{b, n, m});
                    for (std::size_t i = 0; i < b; ++i)
                        CHECK(close(slice_by_hand(product, i), product_by_hand(slice_by_hand(left, i), right)));
                }
}

TEST_CASE("each matrix of a stack is transposed, in storage of its own", "[ops][matmul][batch]")
{
    Numbers numbers(11);
    for (const std::size_t n : {0, 1, 3})
        for (const std::size_t m : {0, 1, 4}) {
            Tensor3 matrices = numbers.tensor3(2, n, m);
            const Tensor3 transposed = transpose(matrices);
            CHECK(std::same_as<decltype(transpose(matrices)), Tensor3>);
            REQUIRE(shape_of(transposed) == Shape{2, m, n});
            for (std::size_t i = 0; i < 2; ++i)
                CHECK(same_bits(slice_by_hand(transposed, i), transpose_by_hand(slice_by_hand(matrices, i))));
            CHECK(same_bits(transpose(transpose(matrices)), matrices));
            CHECK(same_bits(transpose(Tensor3(matrices)), transposed));
        }
}

TEST_CASE("a stack of matrices and a matrix that disagree in k are refused, and both shapes named",
          "[ops][matmul][batch]")
{
    const Tensor3 left(Tensor3::shape_type{2, 3, 4});
    const Matrix right(Matrix::shape_type{3, 5});
    CHECK_THROWS_AS(matmul(left, right), ShapeError);
    CHECK_THROWS_WITH(matmul(left, right), ContainsSubstring("left (2, 3, 4) and right (3, 5) must agree in k"));
}
