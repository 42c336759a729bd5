// Exercise 12: put the parts of a decoder layer together.
//
// Run exercise_12_decoder until it succeeds.

#include "exercise.hpp"

using namespace attn;

Matrix my_decoder_layer(const Matrix& x, const Matrix& /*memory*/,
                        const DecoderLayerWeights& /*weights*/, std::size_t /*heads*/)
{
    // Yours: look back, ask the memory, think; after each, add what was found and normalise. Who asks, who answers?
    return x;
}
