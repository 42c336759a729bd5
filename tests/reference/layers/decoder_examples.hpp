#pragma once

#include "examples.hpp"
#include "masked.hpp"

#include "attn/reference/models/transformer.hpp"

/// Decoders with weights drawn from a seed, and what they compute, once more by plain loops.
namespace attn::test {

inline DecoderLayerWeights random_decoder_layer(Numbers& numbers, std::size_t d_model = 6, std::size_t d_ff = 5,
                                                bool is_biased = true)
{
    const HeadSizes sizes{.d_model = d_model,
                          .h_d_k = d_model,
                          .h_d_v = d_model,
                          .d_memory = d_model,
                          .d_value = d_model,
                          .is_biased = is_biased};
    DecoderLayerWeights weights;
    weights.self_attention = random_heads(numbers, sizes);
    weights.cross_attention = random_heads(numbers, sizes);
    weights.feed_forward = random_feed_forward(numbers, d_model, d_ff, is_biased);
    weights.norm1 = random_norm(numbers, d_model, is_biased);
    weights.norm2 = random_norm(numbers, d_model, is_biased);
    weights.norm3 = random_norm(numbers, d_model, is_biased);
    return weights;
}

inline DecoderWeights random_decoder(Numbers& numbers, std::size_t layers, bool has_norm, std::size_t d_model = 6)
{
    DecoderWeights weights;
    for (std::size_t i = 0; i < layers; ++i)
        weights.layers.push_back(random_decoder_layer(numbers, d_model));
    if (has_norm)
        weights.norm = random_norm(numbers, d_model);
    return weights;
}

inline TransformerWeights random_transformer(Numbers& numbers, std::size_t layers, bool has_norm,
                                             std::size_t d_model = 6)
{
    TransformerWeights weights;
    for (std::size_t i = 0; i < layers; ++i)
        weights.encoder.layers.push_back(random_encoder_layer(numbers, d_model));
    if (has_norm)
        weights.encoder.norm = random_norm(numbers, d_model);
    weights.decoder = random_decoder(numbers, layers, has_norm, d_model);
    return weights;
}

template <Sequence T>
T decode(const T& x, const T& memory, const DecoderLayerWeights& weights, const Layers& layers = {},
         const Trace& trace = {})
{
    return decoder_layer(x, memory, weights, masked_decoder(for_decoder(layers), layers.mask, layers.memory_mask),
                         trace);
}

template <Sequence T>
T decode(const T& x, const T& memory, const DecoderWeights& weights, const Layers& layers = {}, const Trace& trace = {})
{
    return decoder(x, memory, weights, masked_decoder(for_decoder(layers), layers.mask, layers.memory_mask), trace);
}

} // namespace attn::test
