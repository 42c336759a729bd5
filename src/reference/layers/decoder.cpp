#include "attn/reference/layers/decoder.hpp"

#include "decoder_parts.hpp"

namespace attn {
namespace {

/// What a decoder is given, as its trace has it.
template <Sequence T>
struct Inputs {
    const T& x;
    const T& memory;
    MaskAndBias mask, memory_mask;
};

template <Sequence T>
Inputs<T> name_inputs(const T& given_x, const T& given_memory, const MaskAndBias& mask, const MaskAndBias& memory_mask,
                      const DecoderOptions& options, const Trace& trace)
{
    expect_same_batch("decoder", "x", given_x, "memory", given_memory);
    const T& x = trace.input("x[(b,) n, d_model]", given_x);
    const T& memory = trace.shared_input("memory[(b,) m, d_memory]", given_memory);
    MaskAndBias own = own_mask(x, mask, options, trace);
    return {x,
            memory,
            std::move(own),
            {share("memory_mask[(b,) n, m]", memory_mask.mask, trace),
             share("memory_bias[(b,) n, m]", memory_mask.bias, trace)}};
}

} // namespace

template <Sequence T>
T decoder_layer(const T& x, const T& memory, const MaskAndBias& mask, const MaskAndBias& memory_mask,
                const DecoderLayerWeights& weights, const DecoderOptions& options, const Trace& caller)
{
    const Trace trace = caller.module("decoder_layer", [&] { return describe(options); });
    const Inputs<T> inputs = name_inputs(x, memory, mask, memory_mask, options, trace);
    return decoder_blocks("decoder_layer", inputs.x, weights, options, trace,
                          attend(inputs.mask, weights.self_attention, options.attention),
                          [&](const T& tokens, const Trace& cross_attn) {
                              cross_attn.alias("memory", "memory");
                              const auto& [hidden, added] = inputs.memory_mask;
                              if (hidden) // not the mask of self-attention, which a scope around has
                                  cross_attn.alias("mask", "memory_mask");
                              if (added)
                                  cross_attn.alias("bias", "memory_bias");
                              return multi_head_attention(tokens, inputs.memory, hidden, added, weights.cross_attention,
                                                          cross_options(options), cross_attn)
                                  .output;
                          });
}

template <Sequence T>
T decoder(const T& x, const T& memory, const MaskAndBias& mask, const MaskAndBias& memory_mask,
          const DecoderWeights& weights, const DecoderOptions& options, const Trace& caller)
{
    const Trace trace = caller.module("decoder", [&] { return describe(options, weights.layers.size()); });
    const Inputs<T> inputs = name_inputs(x, memory, mask, memory_mask, options, trace);
    const DecoderOptions of_layers = without_causal(options);
    return stack_layers(
        inputs.x, weights, options, trace, [&](const T& tokens, const DecoderLayerWeights& layer, const Trace& inside) {
            return decoder_layer(tokens, inputs.memory, inputs.mask, inputs.memory_mask, layer, of_layers, inside);
        });
}

template decltype(decoder_layer<Matrix>) decoder_layer<Matrix>;
template decltype(decoder_layer<Tensor3>) decoder_layer<Tensor3>;
template decltype(decoder<Matrix>) decoder<Matrix>;
template decltype(decoder<Tensor3>) decoder<Tensor3>;

} // namespace attn
