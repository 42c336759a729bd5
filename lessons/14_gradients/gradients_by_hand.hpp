#pragma once

// What arrives at the operands of a product, and at the scores of a softmax.

#include "attn/core/tensor.hpp"

namespace attn {

//! [left]
/// C = A B. What arrives at A: dA[i, k] is the sum over j of dC[i, j] B[k, j].
inline Matrix gradient_of_left(const Matrix& arriving, const Matrix& right)
{
    Matrix left = xt::zeros<double>({arriving.shape(0), right.shape(0)});
    for (std::size_t i = 0; i < arriving.shape(0); ++i)
        for (std::size_t k = 0; k < right.shape(0); ++k)
            for (std::size_t j = 0; j < right.shape(1); ++j)
                left(i, k) += arriving(i, j) * right(k, j);
    return left;
}
//! [left]

//! [right]
/// C = A B. What arrives at B: dB[k, j] is the sum over i of A[i, k] dC[i, j].
inline Matrix gradient_of_right(const Matrix& left, const Matrix& arriving)
{
    Matrix right = xt::zeros<double>({left.shape(1), arriving.shape(1)});
    for (std::size_t i = 0; i < left.shape(0); ++i)
        for (std::size_t k = 0; k < left.shape(1); ++k)
            for (std::size_t j = 0; j < arriving.shape(1); ++j)
                right(k, j) += left(i, k) * arriving(i, j);
    return right;
}
//! [right]

//! [softmax]
/// A = softmax(S), row by row. What arrives at S: A (dA - the mean of dA by the weights).
inline Matrix gradient_of_scores(const Matrix& weights, const Matrix& arriving)
{
    Matrix scores(weights.shape());
    for (std::size_t i = 0; i < weights.shape(0); ++i) {
        double mean = 0;
        for (std::size_t j = 0; j < weights.shape(1); ++j)
            mean += weights(i, j) * arriving(i, j);
        for (std::size_t j = 0; j < weights.shape(1); ++j)
            scores(i, j) = weights(i, j) * (arriving(i, j) - mean);
    }
    return scores;
}
//! [softmax]

} // namespace attn
