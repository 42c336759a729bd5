// Exercise 1: the attention of one query, with loops.
//
// Write the three functions that exercise.hpp describes. It is checked by
//
//     script/exercise 1

#include "exercise.hpp"

#include <cmath>

using namespace attn;

Vector my_scores(const Vector& /*query*/, const Matrix& keys)
{
    Vector scores({keys.shape(0)}, 0.0);
    // To do: scores(j) is the sum of query(i) * keys(j, i) over all i, from 0 to
    // query.size() - 1.
    return scores;
}

Vector my_weights(const Vector& scores)
{
    Vector weights({scores.size()}, 0.0);
    // To do: std::exp of each score, divided by the sum of all these exponentials.
    return weights;
}

Vector my_output(const Vector& /*weights*/, const Matrix& values)
{
    Vector output({values.shape(1)}, 0.0);
    // To do: add weights(j) times row j of values, for every j.
    return output;
}
