// Exercise 9: layer norm of one token.
//
// Write the function that exercise.hpp describes. It is checked by
//
//     script/exercise 9

#include "exercise.hpp"

#include <cmath>

using namespace attn;

Vector my_normalized(const Vector& token, double /*epsilon*/)
{
    Vector normalized = xt::zeros<double>(token.shape());
    // To do: the mean of the features; their variance, which is the mean of the squared
    // distances from the mean; then each distance divided by the root of variance +
    // epsilon.
    return normalized;
}
