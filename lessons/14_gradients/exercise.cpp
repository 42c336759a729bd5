// Exercise 14: the gradients at the scores and at the keys.
//
// Write the two functions that exercise.hpp describes. It is checked by
//
//     script/exercise 14

#include "exercise.hpp"

#include <cmath>

using namespace attn;

Matrix my_score_gradient(const Matrix& weights, const Matrix& /*arriving*/)
{
    Matrix gradient = xt::zeros<double>(weights.shape());
    // To do, row by row. One score changes every weight of its row: which number of the
    // row is subtracted from what arrives, before the product with the weight?
    return gradient;
}

Matrix my_key_gradient(const Matrix& arriving, const Matrix& queries)
{
    Matrix gradient = xt::zeros<double>({arriving.shape(1), queries.shape(1)});
    // To do. Key j is used by every query i, with the factor 1 / sqrt(d_k): add up what
    // they all send.
    return gradient;
}
