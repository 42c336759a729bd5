// Exercise 20: attention in a causal window, without a matrix (n, n).
//
// Write the function that exercise.hpp describes. It is checked by
//
//     script/exercise 20

#include "exercise.hpp"

#include <cmath>

using namespace attn;

Matrix my_past_window(const Matrix& x, std::size_t /*radius*/)
{
    Matrix context = xt::zeros<double>(x.shape());
    // To do: for each token, find the first token of its window; sum std::exp(score)
    // times the token over the window, and divide by the sum of std::exp(score).
    return context;
}
