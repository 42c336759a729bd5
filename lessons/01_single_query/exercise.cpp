// Exercise 1: the middle of lesson 1, in loops of your own.
//
// Fill in the three functions, build, and run exercise_01_single_query until it succeeds. Until then it says which of
// the three is the first that isn't right. exercise.hpp says what each gets and returns.

#include "exercise.hpp"

#include <cmath>

using namespace attn;

Vector my_scores(const Vector& /*query*/, const Matrix& keys)
{
    Vector scores({keys.shape(0)}, 0.0);
    // Yours: scores(j) is the sum of query(i) * keys(j, i) over all i. query.size() says how many there are.
    return scores;
}

Vector my_weights(const Vector& scores)
{
    Vector weights({scores.size()}, 0.0);
    // Yours: std::exp of each score, over the sum of them all.
    return weights;
}

Vector my_output(const Vector& /*weights*/, const Matrix& values)
{
    Vector output({values.shape(1)}, 0.0);
    // Yours: add weights(j) times row j of values, for every j.
    return output;
}
