// Exercise 3: a softmax that nothing can overflow, and the right divisor.
//
// Run exercise_03_scale_and_softmax until it succeeds.

#include "exercise.hpp"

#include <cmath>

using namespace attn;

Vector my_softmax(const Vector& scores)
{
    Vector weights({scores.size()}, 0.0);
    // Yours. Which score must be subtracted? And what is -inf minus -inf?
    return weights;
}

double my_divisor(std::size_t /*d_k*/, double /*variance*/)
{
    // Yours. A product of two independent features of variance v and mean 0 has the variance v * v.
    return 1;
}
