// Exercise 5: causal and padding, in loops of your own.
//
// Run exercise_05_masking until it succeeds.

#include "exercise.hpp"

#include <cmath>

using namespace attn;

Matrix my_masked_weights(const Matrix& scores, std::size_t /*length*/)
{
    Matrix weights = xt::zeros<double>(scores.shape());
    // Yours: for each query, add up exp(score) over the keys that it may see, then give each of them its share.
    return weights;
}
