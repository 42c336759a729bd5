// Exercise 4: two scores of one pair, with loops.
//
// Write the two functions that exercise.hpp describes. It is checked by
//
//     script/exercise 4

#include "exercise.hpp"

#include <cmath>

using namespace attn;

double my_additive_score(const Vector& /*query*/, const Vector& /*key*/,
                         const AdditiveWeights& weights)
{
    double score = 0;
    for (std::size_t unit = 0; unit < weights.score.size(); ++unit) {
        // To do: sum what query and key send to this hidden unit, weights.query(i, unit)
        // and weights.key(i, unit); add std::tanh of the sum times weights.score(unit).
    }
    return score;
}

double my_bilinear_score(const Vector& /*query*/, const Vector& /*key*/,
                         const Matrix& /*bilinear*/)
{
    // To do: the sum of query(i) * bilinear(i, j) * key(j) over all i and j.
    return 0;
}
