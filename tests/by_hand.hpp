#pragma once

#include "attn/core/tensor.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

/// What attn computes, once more: plain loops over single numbers, for tests to compare with.
namespace attn::test {

/// True where both have the same shape and the same bits.
template <Traceable T>
bool same_bits(const T& left, const T& right)
{
    return identical(to_array(left), to_array(right));
}

/// True where both have the same shape, and each pair of numbers is off by at most the tolerance of the larger, or of
/// one. NaN is close to nothing.
template <Traceable T>
bool close(const T& left, const T& right, double tolerance = 1e-12)
{
    const Array a = to_array(left);
    const Array b = to_array(right);
    return a.shape == b.shape && std::ranges::equal(a.values, b.values, [&](double x, double y) {
               return std::abs(x - y) <= tolerance * std::max({1.0, std::abs(x), std::abs(y)});
           });
}

inline Matrix product_by_hand(const Matrix& left, const Matrix& right)
{
    Matrix product(Matrix::shape_type{left.shape(0), right.shape(1)}, 0.0);
    for (std::size_t i = 0; i < left.shape(0); ++i)
        for (std::size_t j = 0; j < right.shape(1); ++j)
            for (std::size_t k = 0; k < left.shape(1); ++k)
                product(i, j) += left(i, k) * right(k, j);
    return product;
}

inline Matrix transpose_by_hand(const Matrix& matrix)
{
    Matrix result(Matrix::shape_type{matrix.shape(1), matrix.shape(0)});
    for (std::size_t i = 0; i < matrix.shape(0); ++i)
        for (std::size_t j = 0; j < matrix.shape(1); ++j)
            result(j, i) = matrix(i, j);
    return result;
}

/// The rows one by one, without subtracting the largest: for small scores only.
inline Matrix softmax_by_hand(const Matrix& scores)
{
    Matrix weights(scores.shape());
    for (std::size_t i = 0; i < scores.shape(0); ++i) {
        double total = 0;
        for (std::size_t j = 0; j < scores.shape(1); ++j)
            total += std::exp(scores(i, j));
        for (std::size_t j = 0; j < scores.shape(1); ++j)
            weights(i, j) = total == 0 ? 0 : std::exp(scores(i, j)) / total;
    }
    return weights;
}

inline Matrix row_by_hand(const Matrix& matrix, std::size_t row)
{
    Matrix result(Matrix::shape_type{1, matrix.shape(1)});
    for (std::size_t j = 0; j < matrix.shape(1); ++j)
        result(0, j) = matrix(row, j);
    return result;
}

} // namespace attn::test
