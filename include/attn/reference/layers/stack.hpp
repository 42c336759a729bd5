#pragma once

#include "attn/reference/layers/encoder.hpp"

#include "attn/reference/layers/residual.hpp"

/// Common parts of stacks of encoder and decoder layers.
namespace attn {

/// The mask of self-attention, joined with a causal one where that is asked for, and its bias.
template <Sequence T>
MaskAndBias own_mask(const T& x, const MaskAndBias& given, const EncoderOptions& options, const Trace& trace)
{
    const std::size_t n = x.shape(token_axis<T>);
    return {join_masks(n, n, {.given = given.mask, .causal = options.attention.causal}, trace),
            share("bias[(b,) n, m]", given.bias, trace)};
}

/// A layer norm for a block of a ResidualStream.
inline auto normalize(const LayerNormWeights& weights, const LayerNormOptions& options)
{
    return [&weights, options](const auto& tokens, const Trace& trace) {
        return layer_norm(tokens, weights, options, trace);
    };
}

/// A feed-forward network for a block of a ResidualStream.
inline auto feed(const FeedForwardWeights& weights, const FeedForwardOptions& options)
{
    return [&weights, options](const auto& tokens, const Trace& trace) {
        return feed_forward(tokens, weights, options, trace);
    };
}

/// The self-attention of a layer's options for a block of a ResidualStream; the mask is joined already.
inline auto attend(const MaskAndBias& mask, const MultiHeadWeights& weights, GroupedQueryOptions options)
{
    options.causal.reset();
    return [&mask, &weights, options](const auto& tokens, const Trace& trace) {
        return self_attention(tokens, mask, weights, options, trace).output;
    };
}

/// The options without what the mask says already.
inline EncoderOptions without_causal(EncoderOptions options)
{
    options.attention.causal.reset();
    return options;
}

/// What a layer ran with, as its trace records it.
inline StepOptions describe(const EncoderOptions& options)
{
    return {{"norm", options.placement == NormPlacement::post ? "post" : "pre"},
            {"heads", std::to_string(options.attention.heads)},
            {"activation", std::string(name_of(options.feed_forward.activation))},
            {"epsilon", exact_text(options.norm.epsilon)}};
}

/// The same of a stack.
inline StepOptions describe(const EncoderOptions& options, std::size_t layers)
{
    StepOptions described = describe(options);
    described.emplace_back("layers", std::to_string(layers));
    return described;
}

/// Layers on top of each other, and the norm after them where there is one.
/// @param layer  one layer: from (tokens, weights of the layer, its scope) to what comes out
template <Sequence T, class Weights, class Layer>
T stack_layers(const T& x, const Weights& weights, const EncoderOptions& options, const Trace& trace,
               const Layer& layer)
{
    T tokens = x;
    std::string name = pass_through(tokens, "x", weights.layers, trace, layer);
    if (weights.norm) {
        const Trace norm = trace.scope("norm", {{"x", name}});
        tokens = layer_norm(tokens, *weights.norm, options.final_norm.value_or(options.norm), norm);
        name = "norm.output";
    }
    trace.alias("output", name);
    return tokens;
}

} // namespace attn
