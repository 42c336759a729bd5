// Exercise 10: put the parts of a pre-norm layer together.
//
// Run exercise_10_encoder_layer until it succeeds.

#include "exercise.hpp"

using namespace attn;

Matrix my_pre_norm_layer(const Matrix& x, const EncoderLayerWeights& /*weights*/,
                         std::size_t /*heads*/)
{
    // Yours: twice, normalise, let the block work on that, and add what it found to what was not normalised.
    return x;
}
