// Exercise 15: a causal window, without a matrix (n, n).
//
// Run exercise_20_restricted until it is content.

#include "exercise.hpp"

#include <cmath>

using namespace attn;

Matrix my_past_window(const Matrix& x, std::size_t /*radius*/)
{
    Matrix context = xt::zeros<double>(x.shape());
    // Yours: for each token, which is the first that it may see? Add up exp(score) times the token, and exp(score).
    return context;
}
