// Exercise 20: attention in a causal window, without a matrix (n, n).
//
// Build and run exercise_20_restricted: it names the first result that is still wrong.

#include "exercise.hpp"

#include <cmath>

using namespace attn;

Matrix my_past_window(const Matrix& x, std::size_t /*radius*/)
{
    Matrix context = xt::zeros<double>(x.shape());
    // To do: for each token, find the first one in its window; sum exp(score) times the token, and exp(score).
    return context;
}
