#pragma once

#include "attn/reference/layers/decoder.hpp"

#include "attn/reference/layers/stack.hpp"

/// A decoder layer, for keys and values from a cache or without one.
namespace attn {

/// Cross-attention has as many heads as self-attention, the same scale and softcap; it has neither positions nor a causal
/// mask.
inline MultiHeadOptions cross_options(const DecoderOptions& options)
{
    return {.heads = options.attention.heads, .scale = options.attention.scale, .softcap = options.attention.softcap};
}

/// @param attend  self-attention: from (tokens, scope) to the self-attention's output
/// @param cross   cross-attention: from (tokens, scope) to the cross-attention's output
template <Sequence T, class Attend, class Cross>
T decoder_blocks(std::string_view function, const T& x, const DecoderLayerWeights& weights,
                 const DecoderOptions& options, const Trace& trace, const Attend& attend, const Cross& cross)
{
    // Attend to the other tokens, then to the memory, then map each token by itself; add each result to its input.
    ResidualStream<T> stream(function, x, options.placement == NormPlacement::pre, 3, trace);
    stream.add("self_attn", normalize(weights.norm1, options.norm), attend);
    stream.add("cross_attn", normalize(weights.norm2, options.norm), cross);
    stream.add("feed_forward", normalize(weights.norm3, options.norm),
               feed(weights.feed_forward, options.feed_forward));
    return stream.output();
}

} // namespace attn
