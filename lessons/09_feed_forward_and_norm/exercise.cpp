// Exercise 9: layer norm of one token.
//
// Run exercise_09_feed_forward_and_norm until it succeeds.

#include "exercise.hpp"

#include <cmath>

using namespace attn;

Vector my_normalized(const Vector& token, double /*epsilon*/)
{
    // Yours: the mean, the mean of the squared distances from it, and each feature's distance in units of the root.
    return token;
}
