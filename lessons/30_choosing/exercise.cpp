// Exercise 30: the nucleus of the next token, and what comes in place of a rejected guess.
//
// Write the functions that exercise.hpp describes. They are checked by
//
//     script/exercise 30

#include "exercise.hpp"

using namespace attn;

Matrix my_probabilities(const Matrix& logits, double /*temperature*/, double /*top_p*/)
{
    // To do. How much probability do the tokens have together that are more likely than
    // this one? Does a token still belong to the nucleus if it only reaches top_p with it?
    return xt::zeros_like(logits);
}

Vector my_next(const Vector& target, const Vector& /*draft*/)
{
    // To do. Which tokens does the draft give less often than the target, and by how much?
    return xt::zeros_like(target);
}
