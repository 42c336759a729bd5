// Exercise 22: mix the scores of several heads, with plain loops.
//
// Build and run exercise_22_low_rank_and_talking_heads: it names the first result that is still wrong.

#include "exercise.hpp"

using namespace attn;

Tensor3 my_mixed_heads(const Tensor3& scores, const Matrix& mixture)
{
    Tensor3 mixed =
        xt::zeros<double>({mixture.shape(1), scores.shape(1), scores.shape(2)});
    // To do: for each mixture and each pair of tokens, sum the heads' scores, each times its number in the mixture.
    return mixed;
}
