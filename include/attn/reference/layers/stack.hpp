#pragma once

#include "attn/reference/layers/encoder.hpp"

#include "attn/reference/layers/residual.hpp"

/// Common parts of stacks of encoder and decoder layers.
namespace attn {

/// The options of a layer whose mask is joined with a causal one where that is asked for, and named in its scope, as is its bias.
template <Sequence T, class Options>
Options with_joined_mask(const T& x, Options options, const Trace& trace)
{
    const std::size_t n = x.shape(token_axis<T>);
    MultiHeadOptions& attention = options.attention;
    attention.mask = join_masks(n, n, {.given = attention.mask, .causal = attention.causal}, trace);
    attention.bias = share("bias[(b,) n, m]", attention.bias, trace);
    attention.causal.reset();
    return options;
}

/// What a layer ran with, as its trace records it.
template <class Options>
StepOptions describe_layer(const Options& options)
{
    return {{"norm", std::string(name_of(options.placement))},
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

/// Layers on top of each other, and the norm after them where there is one.
/// @param layer  one layer: from (tokens, weights of the layer, its scope) to what comes out
template <Sequence T, class Weights, class Options, class Layer>
Term<T> stack_layers(const Term<T>& x, const Weights& weights, const Options& options, const Trace& trace,
                     const Layer& layer)
{
    Term tokens = pass_through(x, weights.layers, trace, layer);
    if (weights.norm)
        tokens = layer_norm(tokens, *weights.norm, options.final_norm.value_or(options.norm), trace.scope("norm"));
    return trace.alias("output", tokens);
}

} // namespace attn
