#pragma once

#include "attn/layers/encoder.hpp"
#include "attn/shape.hpp"

#include <string>
#include <string_view>

/// What layers of encoders and decoders are built of. Each block is called in a scope of its own inside the layer, where
/// its input is named by what it comes from.
namespace attn {

template <Sequence T>
constexpr std::size_t features = std::same_as<T, Matrix> ? 1 : 2; // the axis that a residual sum would broadcast

/// What attention gives has to be as wide as the tokens that it is added to.
template <Sequence T>
void expect_addable(std::string_view function, const T& x, std::string_view role, const MultiHeadWeights& weights)
{
    const Matrix& last = weights.output ? weights.output->weight : weights.value.weight;
    expect_agreement(function, "d_model", {"x", x, features<T>}, {role, last, 1});
}

/// The same of a feed-forward network.
template <Sequence T>
void expect_addable(std::string_view function, const T& x, const FeedForwardWeights& weights)
{
    expect_agreement(function, "d_model", {"x", x, features<T>},
                     {"output weights of the feed-forward network", weights.output.weight, 1});
}

/// Layer norm of a step of the layer.
template <Sequence T>
T normalize(const Trace& layer, std::string_view scope, std::string_view from, const T& x,
            const LayerNormWeights& weights, const LayerNormOptions& options)
{
    const Trace trace = layer.scope(scope);
    return layer_norm(trace("x[(b,) n, d_model]", from, x), weights, options, trace);
}

/// Self-attention of a step of the layer.
template <Sequence T>
T attend(const Trace& layer, std::string_view from, const T& x, const MultiHeadWeights& weights,
         const MultiHeadOptions& options)
{
    const Trace trace = layer.scope("self_attn");
    return multi_head_attention(trace("x[(b,) n, d_model]", from, x), weights, options, trace).output;
}

/// The feed-forward network on a step of the layer.
template <Sequence T>
T feed(const Trace& layer, std::string_view from, const T& x, const FeedForwardWeights& weights,
       const FeedForwardOptions& options)
{
    const Trace trace = layer.scope("feed_forward");
    return feed_forward(trace("x[(b,) n, d_model]", from, x), weights, options, trace);
}

/// Names a mask where it is for all layers, unless a scope around has done so.
inline void name_mask(std::string_view label, const std::optional<AnyMask>& mask, const Trace& trace)
{
    if (mask)
        std::visit([&](const auto& any) { trace.shared_input(label, any); }, *mask);
}

/// What a layer ran with, as its trace records it; EncoderOptions or DecoderOptions.
template <class Options>
StepOptions describe_layer(const Options& options)
{
    return {{"norm", options.placement == NormPlacement::post ? "post" : "pre"},
            {"heads", std::to_string(options.attention.heads)},
            {"activation", std::string(name_of(options.feed_forward.activation))},
            {"epsilon", exact_text(options.norm.epsilon)}};
}

/// The same of a stack.
template <class Options>
StepOptions describe_stack(const Options& options, std::size_t layers)
{
    StepOptions described = describe_layer(options);
    described.emplace_back("layers", std::to_string(layers));
    return described;
}

/// Layers on top of each other, and the norm behind them where there is one.
/// @param layer  computes one layer: (x, weights of the layer, trace) to what comes out
template <Sequence T, class Weights, class Options, class Layer>
T stack_layers(const T& x, const Weights& weights, const Options& options, const Trace& trace, const Layer& layer)
{
    T tokens = x;
    std::string from = "x";
    for (std::size_t i = 0; i < weights.layers.size(); ++i) {
        const Trace inside = trace.scope("layers", i);
        tokens = layer(inside("x[(b,) n, d_model]", from, tokens), weights.layers[i], inside);
        from = "layers." + std::to_string(i) + ".output";
    }
    if (!weights.norm)
        return trace("output[(b,) n, d_model]", from, tokens);
    return trace("output[(b,) n, d_model]", "norm.output",
                 normalize(trace, "norm", from, tokens, *weights.norm, options.final_norm.value_or(options.norm)));
}

} // namespace attn
