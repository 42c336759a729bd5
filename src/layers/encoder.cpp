#include "attn/layers/encoder.hpp"

#include "blocks.hpp"

namespace attn {
namespace {

template <Sequence T>
T post_norm_layer(const T& x, const EncoderLayerWeights& weights, const EncoderOptions& options, const Trace& trace)
{
    // Let tokens look at each other, and add what they found.
    const T attended = attend(trace, "x", x, weights.self_attention, options.attention);
    const T residual1 = trace("residual1[(b,) n, d_model]", "x + self_attn.output", T(x + attended));
    const T between = normalize(trace, "norm1", "residual1", residual1, weights.norm1, options.norm);

    // Let each token think by itself, and add that.
    const T fed = feed(trace, "norm1.output", between, weights.feed_forward, options.feed_forward);
    const T residual2 = trace("residual2[(b,) n, d_model]", "norm1.output + feed_forward.output", T(between + fed));
    return trace("output[(b,) n, d_model]", "norm2.output",
                 normalize(trace, "norm2", "residual2", residual2, weights.norm2, options.norm));
}

template <Sequence T>
T pre_norm_layer(const T& x, const EncoderLayerWeights& weights, const EncoderOptions& options, const Trace& trace)
{
    // The same two blocks; only what goes into them is normalised, never the sum.
    const T first = normalize(trace, "norm1", "x", x, weights.norm1, options.norm);
    const T attended = attend(trace, "norm1.output", first, weights.self_attention, options.attention);
    const T residual1 = trace("residual1[(b,) n, d_model]", "x + self_attn.output", T(x + attended));

    const T second = normalize(trace, "norm2", "residual1", residual1, weights.norm2, options.norm);
    const T fed = feed(trace, "norm2.output", second, weights.feed_forward, options.feed_forward);
    return trace("output[(b,) n, d_model]", "residual1 + feed_forward.output", T(residual1 + fed));
}

template <Sequence T>
T layer(const T& x, const EncoderLayerWeights& weights, const EncoderOptions& options, const Trace& caller)
{
    expect_addable("encoder_layer", x, "output weights of self-attention", weights.self_attention);
    expect_addable("encoder_layer", x, weights.feed_forward);
    const Trace trace = caller.module("encoder_layer", [&] { return describe_layer(options); });
    trace.input("x[(b,) n, d_model]", x);
    name_mask("mask[(b,) n, m]", options.attention.mask, trace);
    return options.placement == NormPlacement::post ? post_norm_layer(x, weights, options, trace)
                                                    : pre_norm_layer(x, weights, options, trace);
}

template <Sequence T>
T stack(const T& x, const EncoderWeights& weights, const EncoderOptions& options, const Trace& caller)
{
    const Trace trace = caller.module("encoder", [&] { return describe_stack(options, weights.layers.size()); });
    trace.input("x[(b,) n, d_model]", x);
    name_mask("mask[(b,) n, m]", options.attention.mask, trace);
    return stack_layers(x, weights, options, trace,
                        [&](const T& tokens, const EncoderLayerWeights& of_layer, const Trace& inside) {
                            return layer(tokens, of_layer, options, inside);
                        });
}

} // namespace

Matrix encoder_layer(const Matrix& x, const EncoderLayerWeights& weights, const EncoderOptions& options,
                     const Trace& trace)
{
    return layer(x, weights, options, trace);
}

Tensor3 encoder_layer(const Tensor3& x, const EncoderLayerWeights& weights, const EncoderOptions& options,
                      const Trace& trace)
{
    return layer(x, weights, options, trace);
}

Matrix encoder(const Matrix& x, const EncoderWeights& weights, const EncoderOptions& options, const Trace& trace)
{
    return stack(x, weights, options, trace);
}

Tensor3 encoder(const Tensor3& x, const EncoderWeights& weights, const EncoderOptions& options, const Trace& trace)
{
    return stack(x, weights, options, trace);
}

} // namespace attn
