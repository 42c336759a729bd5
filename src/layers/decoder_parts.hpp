#pragma once

#include "attn/layers/decoder.hpp"

#include "stack.hpp"

/// What a decoder layer is, whichever way its two attentions come by their keys and values.
namespace attn {

/// Cross-attention has as many heads as self-attention and the same scale; it has neither positions nor a causal mask.
inline MultiHeadOptions cross_options(const DecoderOptions& options)
{
    return {.heads = options.attention.heads, .scale = options.attention.scale};
}

/// @param attend  self-attention: from (tokens, scope) to what the tokens find in each other
/// @param cross   cross-attention: from (tokens, scope) to what they find in the memory
template <Sequence T, class Attend, class Cross>
T decoder_blocks(std::string_view function, const T& x, const DecoderLayerWeights& weights,
                 const DecoderOptions& options, const Trace& trace, const Attend& attend, const Cross& cross)
{
    // Let tokens attend to each other, then to the memory, then map each by itself; add all three to what was there.
    ResidualStream<T> stream(function, x, options.placement == NormPlacement::pre, 3, trace);
    stream.add("self_attn", normalize(weights.norm1, options.norm), attend);
    stream.add("cross_attn", normalize(weights.norm2, options.norm), cross);
    stream.add("feed_forward", normalize(weights.norm3, options.norm),
               feed(weights.feed_forward, options.feed_forward));
    return stream.output();
}

} // namespace attn
