#include "attn/reference/layers/encoder.hpp"

#include "attn/core/choices.hpp"
#include "attn/reference/layers/stack.hpp"

namespace attn {
namespace {

constexpr Choice<NormPlacement> placements[] = {{NormPlacement::post, "post"}, {NormPlacement::pre, "pre"}};

} // namespace

std::string_view name_of(NormPlacement placement) { return row_for<placements>(placement).name; }

template <Sequence T>
T encoder_layer(const T& tokens, const EncoderLayerWeights& weights, const EncoderOptions& given, const Trace& caller)
{
    const Trace trace = caller.module("encoder_layer", [&] { return describe_layer(given); });
    const T& x = trace.input("x[(b,) n, d_model]", tokens);
    const EncoderOptions options = with_joined_mask(x, given, trace);

    // Attend to the other tokens, then map each token by itself; add each result to its input.
    ResidualStream<T> stream("encoder_layer", x, options.placement == NormPlacement::pre, 2, trace);
    stream.add("self_attn", weights.norm1, options.norm, [&](const T& y, const Trace& self_attn) {
        return multi_head_attention(y, weights.self_attention, options.attention, self_attn).output;
    });
    stream.add("feed_forward", weights.norm2, options.norm, [&](const T& y, const Trace& inside) {
        return feed_forward(y, weights.feed_forward, options.feed_forward, inside);
    });
    return stream.output();
}

template <Sequence T>
T encoder(const T& tokens, const EncoderWeights& weights, const EncoderOptions& given, const Trace& caller)
{
    const Trace trace = caller.module("encoder", [&] { return describe_stack(given, weights.layers.size()); });
    const T& x = trace.input("x[(b,) n, d_model]", tokens);
    const EncoderOptions options = with_joined_mask(x, given, trace);
    return stack_layers(x, weights, options, trace,
                        [&](const T& inputs, const EncoderLayerWeights& layer, const Trace& inside) {
                            return encoder_layer(inputs, layer, options, inside);
                        });
}

template decltype(encoder_layer<Matrix>) encoder_layer<Matrix>;
template decltype(encoder_layer<Tensor3>) encoder_layer<Tensor3>;
template decltype(encoder<Matrix>) encoder<Matrix>;
template decltype(encoder<Tensor3>) encoder<Tensor3>;

} // namespace attn
