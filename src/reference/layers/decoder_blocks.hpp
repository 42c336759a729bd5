#pragma once

#include "attn/reference/layers/decoder.hpp"

#include "attn/reference/layers/stack.hpp"

/// A decoder layer, for keys and values from a cache or without one.
namespace attn {

/// Cross-attention has as many heads as self-attention, the same scale, softcap and norms of queries and keys; it has neither
/// positions nor a causal mask.
inline MultiHeadOptions cross_options(const DecoderOptions& options)
{
    const auto& [heads, mask, bias, causal, scale, softcap, positions, rotary, norm, unit_epsilon, temperature] =
        options.attention; // scaled by their positions, which a memory has not

    return {.heads = heads,
            .mask = options.memory_mask,
            .bias = options.memory_bias,
            .scale = scale,
            .softcap = softcap,
            .norm = norm,
            .unit_epsilon = unit_epsilon};
}

/// In the scope of cross-attention its mask and bias are those of the memory, not of self-attention, which a scope around has.
inline void name_memory_mask(const DecoderOptions& options, const Trace& cross_attn)
{
    if (options.memory_mask)
        cross_attn.alias("mask", "memory_mask");
    if (options.memory_bias)
        cross_attn.alias("bias", "memory_bias");
}

/// @param attend  self-attention: from (tokens, scope) to the self-attention's output
/// @param cross   cross-attention: from (tokens, scope) to the cross-attention's output
template <Sequence T, class Attend, class Cross>
T decoder_blocks(std::string_view function, const T& x, const DecoderLayerWeights& weights,
                 const DecoderOptions& options, const Trace& trace, const Attend& attend, const Cross& cross)
{
    // Attend to the other tokens, then to the memory, then map each token by itself; add each result to its input.
    ResidualStream<T> stream(function, x, options.placement == NormPlacement::pre, 3, trace);
    stream.add("self_attn", weights.norm1, options.norm, attend);
    stream.add("cross_attn", weights.norm2, options.norm, cross);
    stream.add("feed_forward", weights.norm3, options.norm, [&](const T& y, const Trace& inside) {
        return feed_forward(y, weights.feed_forward, options.feed_forward, inside);
    });
    return stream.output();
}

} // namespace attn
