#include "attn/layers/decoder.hpp"

#include "decoder_blocks.hpp"

namespace attn {
namespace {

/// Cross-attention of a step of the layer: its queries, the memory's keys and values.
template <Sequence T>
T consult(const Trace& layer, std::string_view from, const T& x, const T& memory, const MultiHeadWeights& weights,
          const DecoderOptions& options)
{
    const Trace trace = layer.scope("cross_attn");
    const T asking = trace("x[(b,) n, d_model]", from, x);
    const T answering = trace("memory[(b,) m, d_memory]", "memory", memory);
    MultiHeadOptions of_heads{.heads = options.attention.heads, .scale = options.attention.scale};
    // Not the mask of self-attention, which a scope around has.
    if (options.memory_mask)
        of_heads.mask =
            std::visit([&](const auto& mask) -> AnyMask { return trace("mask[(b,) n, m]", "memory_mask", mask); },
                       *options.memory_mask);
    return multi_head_attention(asking, answering, weights, of_heads, trace).output;
}

template <Sequence T>
void name_inputs(const T& x, const T& memory, const DecoderOptions& options, const Trace& trace)
{
    trace.input("x[(b,) n, d_model]", x);
    trace.shared_input("memory[(b,) m, d_memory]", memory);
    name_mask("mask[(b,) n, m]", options.attention.mask, trace);
    name_mask("memory_mask[(b,) n, m]", options.memory_mask, trace);
}

template <Sequence T>
T layer(const T& x, const T& memory, const DecoderLayerWeights& weights, const DecoderOptions& options,
        const Trace& caller)
{
    if constexpr (std::same_as<T, Tensor3>)
        expect_agreement("decoder_layer", "b", {"x", x, 0}, {"memory", memory, 0});
    expect_addable("decoder_layer", x, weights);
    const Trace trace = caller.module("decoder_layer", [&] { return describe_layer(options); });
    name_inputs(x, memory, options, trace);
    return decoder_blocks(
        x, weights, options, trace,
        [&](std::string_view from, const T& tokens) {
            return attend(trace, from, tokens, weights.self_attention, options.attention);
        },
        [&](std::string_view from, const T& tokens) {
            return consult(trace, from, tokens, memory, weights.cross_attention, options);
        });
}

template <Sequence T>
T stack(const T& x, const T& memory, const DecoderWeights& weights, const DecoderOptions& options, const Trace& caller)
{
    const Trace trace = caller.module("decoder", [&] { return describe_stack(options, weights.layers.size()); });
    name_inputs(x, memory, options, trace);
    return stack_layers(x, weights, options, trace,
                        [&](const T& tokens, const DecoderLayerWeights& of_layer, const Trace& inside) {
                            return layer(tokens, memory, of_layer, options, inside);
                        });
}

} // namespace

Matrix decoder_layer(const Matrix& x, const Matrix& memory, const DecoderLayerWeights& weights,
                     const DecoderOptions& options, const Trace& trace)
{
    return layer(x, memory, weights, options, trace);
}

Tensor3 decoder_layer(const Tensor3& x, const Tensor3& memory, const DecoderLayerWeights& weights,
                      const DecoderOptions& options, const Trace& trace)
{
    return layer(x, memory, weights, options, trace);
}

Matrix decoder(const Matrix& x, const Matrix& memory, const DecoderWeights& weights, const DecoderOptions& options,
               const Trace& trace)
{
    return stack(x, memory, weights, options, trace);
}

Tensor3 decoder(const Tensor3& x, const Tensor3& memory, const DecoderWeights& weights, const DecoderOptions& options,
                const Trace& trace)
{
    return stack(x, memory, weights, options, trace);
}

} // namespace attn
