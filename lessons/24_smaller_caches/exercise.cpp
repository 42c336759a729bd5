// Exercise 24: the absorbed score of one query and one key.
//
// Write the function that exercise.hpp describes. It is checked by
//
//     script/exercise 24

#include "exercise.hpp"

using namespace attn;

double my_absorbed_score(const Vector& /*query*/, const Vector& /*rotary_query*/,
                         const Matrix& /*key_weights*/, const Vector& /*latent*/,
                         const Vector& /*shared_key*/)
{
    // To do. Which product has to be computed once per query, and not once per key? What
    // do the rotated features add? By which root is the sum divided?
    return 0;
}
