#include "attn/reference/layers/decoder.hpp"

#include "decoder_blocks.hpp"

namespace attn {
namespace {

/// The options of a decoder whose masks and biases the trace has named, and whose mask of self-attention is joined.
template <Sequence T>
DecoderOptions with_named_masks(const Term<T>& x, const DecoderOptions& given, const Trace& trace)
{
    DecoderOptions options = with_joined_mask(x, given, trace);
    options.memory_mask = share("memory_mask[(b,) n, m]", given.memory_mask, trace);
    options.memory_bias = share("memory_bias[(b,) n, m]", given.memory_bias, trace);
    return options;
}

} // namespace

template <Sequence T>
T decoder_layer(const T& tokens, const T& given_memory, const DecoderLayerWeights& weights, const DecoderOptions& given,
                const Trace& caller)
{
    expect_same_batch("decoder", "x", tokens, "memory", given_memory);
    const Trace trace = caller.module("decoder_layer", [&] { return describe_layer(given); });
    const Term x = trace.input("x[(b,) n, d_model]", Term(tokens));
    const Term memory = trace.shared_input("memory[(b,) m, d_memory]", Term(given_memory));
    const DecoderOptions options = with_named_masks(x, given, trace);
    return T(decoder_blocks(
        "decoder_layer", x, weights, options, trace,
        [&](const auto& y, const Trace& self_attn) {
            return multi_head_attention(y, weights.self_attention, options.attention, self_attn).output;
        },
        [&](const auto& y, const Trace& cross_attn) {
            return attend_to_memory(y, memory, weights, options, cross_attn);
        }));
}

template <Sequence T>
T decoder(const T& tokens, const T& given_memory, const DecoderWeights& weights, const DecoderOptions& given,
          const Trace& caller)
{
    expect_same_batch("decoder", "x", tokens, "memory", given_memory);
    const Trace trace = caller.module("decoder", [&] { return describe_stack(given, weights.layers.size()); });
    const Term x = trace.input("x[(b,) n, d_model]", Term(tokens));
    const Term memory = trace.shared_input("memory[(b,) m, d_memory]", Term(given_memory));
    const DecoderOptions options = with_named_masks(x, given, trace);
    return T(stack_layers(x, weights, options, trace,
                          [&](const auto& inputs, const DecoderLayerWeights& layer, const Trace& inside) {
                              return decoder_layer(inputs, memory, layer, options, inside);
                          }));
}

ATTN_MAKE_FOR_SEQUENCES(decoder_layer)
ATTN_MAKE_FOR_SEQUENCES(decoder)

} // namespace attn
