// Weights of a decoder like GPT-2, under each of the names that files have for them.

#include "attn/files/weights/gpt.hpp"

#include "attn/files/weights/loader.hpp"
#include "attn/reference/layers/activation.hpp"

namespace attn::files {

GptCheckpoint gpt_weights(const NamedArrays& arrays)
{
    GptCheckpoint checkpoint{load_weights<GptWeights>(arrays, {})};
    GptWeights& weights = checkpoint.weights;
    if (weights.output && transpose(*weights.output) == weights.token_embedding)
        weights.output.reset(); // tied: the file has the same numbers twice
    const Dialect dialect = dialect_of(arrays);
    if (!dialect.family.empty())
        checkpoint.activation = dialect.maps_are_in_out ? Activation::gelu_tanh : Activation::gelu;
    return checkpoint;
}

} // namespace attn::files
