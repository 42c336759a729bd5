// Weights of a decoder like Llama's, under each of the names that files have for them.

#include "attn/files/weights/llama.hpp"

#include "attn/files/weights/loader.hpp"

namespace attn::files {
namespace {

const LlamaNames& names_in(const NamedArrays& arrays)
{
    std::string expected;
    for (const LlamaNames& names : llama_families) {
        const std::string embedding = std::string(names.embedding) + ".weight";
        if (arrays.contains(embedding))
            return names;
        expected += "\n  expected " + embedding + " (" + std::string(names.family) + " names)";
    }
    throw WeightsError("this is not a decoder like Llama's: there is no embedding:" + expected);
}

} // namespace

void WeightsLoader::begin_part(LlamaLayerWeights& weights, const std::string& prefix)
{
    begin_layer(prefix);
    weights.self_attention.output.emplace();
}

LlamaCheckpoint llama_weights(const NamedArrays& arrays)
{
    const LlamaNames& names = names_in(arrays);
    const LoadOptions options{.module = "a decoder with " + std::string(names.family) + " names",
                              .ignored = "rotary_emb.inv_freq"}; // in older files; they follow from their base
    LlamaWeights weights = load_weights<LlamaWeights>(arrays, {}, options, names);
    if (weights.output && transpose(*weights.output) == weights.embedding)
        weights.output.reset(); // tied: the file has the same numbers twice
    return {std::move(weights), names.layout, names.family};
}

} // namespace attn::files
