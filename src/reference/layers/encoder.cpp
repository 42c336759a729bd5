#include "attn/reference/layers/encoder.hpp"

#include "attn/reference/layers/stack.hpp"

namespace attn {

template <Sequence T>
T encoder_layer(const T& tokens, const MaskAndBias& given_mask, const EncoderLayerWeights& weights,
                const EncoderOptions& options, const Trace& caller)
{
    const Trace trace = caller.module("encoder_layer", [&] { return describe(options); });
    const T& x = trace.input("x[(b,) n, d_model]", tokens);
    const MaskAndBias mask = own_mask(x, given_mask, options, trace);

    // Attend to the other tokens, then map each token by itself; add each result to its input.
    ResidualStream<T> stream("encoder_layer", x, options.placement == NormPlacement::pre, 2, trace);
    stream.add("self_attn", normalize(weights.norm1, options.norm),
               attend(mask, weights.self_attention, options.attention));
    stream.add("feed_forward", normalize(weights.norm2, options.norm),
               feed(weights.feed_forward, options.feed_forward));
    return stream.output();
}

template <Sequence T>
T encoder(const T& tokens, const MaskAndBias& given_mask, const EncoderWeights& weights, const EncoderOptions& options,
          const Trace& caller)
{
    const Trace trace = caller.module("encoder", [&] { return describe(options, weights.layers.size()); });
    const T& x = trace.input("x[(b,) n, d_model]", tokens);
    const MaskAndBias mask = own_mask(x, given_mask, options, trace);
    const EncoderOptions of_layers = without_causal(options);
    return stack_layers(x, weights, options, trace,
                        [&](const T& inputs, const EncoderLayerWeights& layer, const Trace& inside) {
                            return encoder_layer(inputs, mask, layer, of_layers, inside);
                        });
}

template decltype(encoder_layer<Matrix>) encoder_layer<Matrix>;
template decltype(encoder_layer<Tensor3>) encoder_layer<Tensor3>;
template decltype(encoder<Matrix>) encoder<Matrix>;
template decltype(encoder<Tensor3>) encoder<Tensor3>;

} // namespace attn
