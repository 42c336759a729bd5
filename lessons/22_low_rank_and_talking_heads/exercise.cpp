// Exercise 22: mix the scores of several heads, with loops.
//
// Write the function that exercise.hpp describes. It is checked by
//
//     script/exercise 22

#include "exercise.hpp"

using namespace attn;

Tensor3 my_mixed_heads(const Tensor3& scores, const Matrix& mixture)
{
    Tensor3 mixed =
        xt::zeros<double>({mixture.shape(1), scores.shape(1), scores.shape(2)});
    // To do: for each mixture and each pair of tokens, sum the scores of all heads, each
    // times its factor in that mixture.
    return mixed;
}
