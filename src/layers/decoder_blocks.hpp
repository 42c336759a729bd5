#pragma once

#include "attn/layers/decoder.hpp"

#include "blocks.hpp"

/// The shape of a decoder layer, whichever way its two attentions come by their keys and values.
namespace attn {

/// Everything that a decoder layer adds to its tokens has to be as wide as they are.
template <Sequence T>
void expect_addable(std::string_view function, const T& x, const DecoderLayerWeights& weights)
{
    expect_addable(function, x, "output weights of self-attention", weights.self_attention);
    expect_addable(function, x, "output weights of cross-attention", weights.cross_attention);
    expect_addable(function, x, weights.feed_forward);
}

/// @param look  self-attention: what the tokens (step, value) find in each other
/// @param ask   cross-attention: what the memory answers to them
template <Sequence T, class Look, class Ask>
T post_norm_decoder_blocks(const T& x, const DecoderLayerWeights& weights, const DecoderOptions& options,
                           const Trace& trace, const Look& look, const Ask& ask)
{
    // Let tokens look at each other, and add what they found.
    const T attended = look("x", x);
    const T residual1 = trace("residual1[(b,) n, d_model]", "x + self_attn.output", T(x + attended));
    const T first = normalize(trace, "norm1", "residual1", residual1, weights.norm1, options.norm);

    // Let them ask the memory, and add what it answered.
    const T answered = ask("norm1.output", first);
    const T residual2 = trace("residual2[(b,) n, d_model]", "norm1.output + cross_attn.output", T(first + answered));
    const T second = normalize(trace, "norm2", "residual2", residual2, weights.norm2, options.norm);

    // Let each token think by itself, and add that.
    const T fed = feed(trace, "norm2.output", second, weights.feed_forward, options.feed_forward);
    const T residual3 = trace("residual3[(b,) n, d_model]", "norm2.output + feed_forward.output", T(second + fed));
    return trace("output[(b,) n, d_model]", "norm3.output",
                 normalize(trace, "norm3", "residual3", residual3, weights.norm3, options.norm));
}

/// The same three blocks; only what goes into them is normalised, never the sum.
template <Sequence T, class Look, class Ask>
T pre_norm_decoder_blocks(const T& x, const DecoderLayerWeights& weights, const DecoderOptions& options,
                          const Trace& trace, const Look& look, const Ask& ask)
{
    const T first = normalize(trace, "norm1", "x", x, weights.norm1, options.norm);
    const T attended = look("norm1.output", first);
    const T residual1 = trace("residual1[(b,) n, d_model]", "x + self_attn.output", T(x + attended));

    const T second = normalize(trace, "norm2", "residual1", residual1, weights.norm2, options.norm);
    const T answered = ask("norm2.output", second);
    const T residual2 = trace("residual2[(b,) n, d_model]", "residual1 + cross_attn.output", T(residual1 + answered));

    const T third = normalize(trace, "norm3", "residual2", residual2, weights.norm3, options.norm);
    const T fed = feed(trace, "norm3.output", third, weights.feed_forward, options.feed_forward);
    return trace("output[(b,) n, d_model]", "residual2 + feed_forward.output", T(residual2 + fed));
}

template <Sequence T, class Look, class Ask>
T decoder_blocks(const T& x, const DecoderLayerWeights& weights, const DecoderOptions& options, const Trace& trace,
                 const Look& look, const Ask& ask)
{
    return options.placement == NormPlacement::post ? post_norm_decoder_blocks(x, weights, options, trace, look, ask)
                                                    : pre_norm_decoder_blocks(x, weights, options, trace, look, ask);
}

} // namespace attn
