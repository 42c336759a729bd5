// Exercise 4: two scores of one pair, in loops of your own.
//
// Run exercise_04_scoring until it succeeds.

#include "exercise.hpp"

#include <cmath>

using namespace attn;

double my_additive_score(const Vector& /*query*/, const Vector& /*key*/,
                         const AdditiveWeights& weights)
{
    double score = 0;
    for (std::size_t unit = 0; unit < weights.score.size(); ++unit) {
        // Yours: what reaches this hidden unit from query and key, through std::tanh, times its score weight.
    }
    return score;
}

double my_bilinear_score(const Vector& /*query*/, const Vector& /*key*/,
                         const Matrix& /*bilinear*/)
{
    // Yours: every query feature times every key feature, each product times a weight of its own.
    return 0;
}
