#include "attn/layers/encoder.hpp"

#include "attn/shape.hpp"

#include <string>

namespace attn {
namespace {

// Inside a layer, each block is called in a scope of its own, where its input is named by what it comes from.

template <Sequence T>
T normalize(const Trace& layer, std::string_view scope, std::string_view from, const T& x,
            const LayerNormWeights& weights, const LayerNormOptions& options)
{
    const Trace trace = layer.scope(scope);
    return layer_norm(trace("x[(b,) n, d_model]", from, x), weights, options, trace);
}

template <Sequence T>
constexpr std::size_t features = std::same_as<T, Matrix> ? 1 : 2; // the axis that a residual sum would broadcast

template <Sequence T>
T attend(const Trace& layer, std::string_view from, const T& x, const EncoderLayerWeights& weights,
         const EncoderOptions& options)
{
    const Trace trace = layer.scope("self_attn");
    T found =
        multi_head_attention(trace("x[(b,) n, d_model]", from, x), weights.self_attention, options.attention, trace)
            .output;
    expect_agreement("encoder_layer", "d_model", {from, x, features<T>}, {"self_attn.output", found, features<T>});
    return found;
}

template <Sequence T>
T feed(const Trace& layer, std::string_view from, const T& x, const EncoderLayerWeights& weights,
       const EncoderOptions& options)
{
    const Trace trace = layer.scope("feed_forward");
    T found = feed_forward(trace("x[(b,) n, d_model]", from, x), weights.feed_forward, options.feed_forward, trace);
    expect_agreement("encoder_layer", "d_model", {from, x, features<T>}, {"feed_forward.output", found, features<T>});
    return found;
}

template <Sequence T>
T post_norm_layer(const T& x, const EncoderLayerWeights& weights, const EncoderOptions& options, const Trace& trace)
{
    // Let tokens look at each other, and add what they found.
    const T attended = attend(trace, "x", x, weights, options);
    const T residual1 = trace("residual1[(b,) n, d_model]", "x + self_attn.output", T(x + attended));
    const T between = normalize(trace, "norm1", "residual1", residual1, weights.norm1, options.norm);

    // Let each token think by itself, and add that.
    const T fed = feed(trace, "norm1.output", between, weights, options);
    const T residual2 = trace("residual2[(b,) n, d_model]", "norm1.output + feed_forward.output", T(between + fed));
    return trace("output[(b,) n, d_model]", "norm2.output",
                 normalize(trace, "norm2", "residual2", residual2, weights.norm2, options.norm));
}

template <Sequence T>
T pre_norm_layer(const T& x, const EncoderLayerWeights& weights, const EncoderOptions& options, const Trace& trace)
{
    // The same two blocks; only what goes into them is normalised, never the sum.
    const T first = normalize(trace, "norm1", "x", x, weights.norm1, options.norm);
    const T attended = attend(trace, "norm1.output", first, weights, options);
    const T residual1 = trace("residual1[(b,) n, d_model]", "x + self_attn.output", T(x + attended));

    const T second = normalize(trace, "norm2", "residual1", residual1, weights.norm2, options.norm);
    const T fed = feed(trace, "norm2.output", second, weights, options);
    return trace("output[(b,) n, d_model]", "residual1 + feed_forward.output", T(residual1 + fed));
}

StepOptions describe(const EncoderOptions& options)
{
    return {{"norm", options.placement == NormPlacement::post ? "post" : "pre"},
            {"heads", std::to_string(options.attention.heads)},
            {"activation", std::string(name_of(options.feed_forward.activation))},
            {"epsilon", exact_text(options.norm.epsilon)}};
}

void name_mask(const EncoderOptions& options, const Trace& trace)
{
    if (options.attention.mask)
        std::visit([&](const auto& mask) { trace.shared_input("mask[(b,) n, m]", mask); }, *options.attention.mask);
}

template <Sequence T>
T layer(const T& x, const EncoderLayerWeights& weights, const EncoderOptions& options, const Trace& caller)
{
    const Trace trace = caller.module("encoder_layer", [&] { return describe(options); });
    trace.input("x[(b,) n, d_model]", x);
    name_mask(options, trace);
    return options.placement == NormPlacement::post ? post_norm_layer(x, weights, options, trace)
                                                    : pre_norm_layer(x, weights, options, trace);
}

template <Sequence T>
T stack(const T& x, const EncoderWeights& weights, const EncoderOptions& options, const Trace& caller)
{
    const Trace trace = caller.module("encoder", [&] {
        StepOptions described = describe(options);
        described.emplace_back("layers", std::to_string(weights.layers.size()));
        return described;
    });
    trace.input("x[(b,) n, d_model]", x);
    name_mask(options, trace);

    T tokens = x;
    std::string from = "x";
    for (std::size_t i = 0; i < weights.layers.size(); ++i) {
        const Trace inside = trace.scope("layers", i);
        tokens = layer(inside("x[(b,) n, d_model]", from, tokens), weights.layers[i], options, inside);
        from = "layers." + std::to_string(i) + ".output";
    }
    if (!weights.norm)
        return trace("output[(b,) n, d_model]", from, tokens);
    return trace("output[(b,) n, d_model]", "norm.output",
                 normalize(trace, "norm", from, tokens, *weights.norm, options.final_norm.value_or(options.norm)));
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
