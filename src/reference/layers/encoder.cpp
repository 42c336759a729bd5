#include "attn/reference/layers/encoder.hpp"

#include "attn/core/choices.hpp"
#include "attn/reference/layers/stack.hpp"
#include "attn/reference/ops/terms.hpp"

namespace attn {
namespace {

constexpr Choice<NormPlacement> placements[] = {{NormPlacement::post, "post"}, {NormPlacement::pre, "pre"}};

} // namespace

std::string_view name_of(NormPlacement placement) { return row_for<placements>(placement).name; }

template <Sequence T>
T encoder_layer(const T& tokens, const EncoderLayerWeights& weights, const EncoderOptions& given, const Trace& caller)
{
    const Trace trace = caller.module("encoder_layer", [&] { return describe_layer(given); });
    const Term x = trace.input("x[(b,) n, d_model]", Term(tokens));
    const EncoderOptions options = with_joined_mask(x, given, trace);
    const auto norm1 = [&](const auto& y) { return layer_norm(y, weights.norm1, options.norm, trace.scope("norm1")); };
    const auto norm2 = [&](const auto& y) { return layer_norm(y, weights.norm2, options.norm, trace.scope("norm2")); };
    const auto attend = [&](const auto& y) {
        return added_to(
            x, "encoder_layer", "self_attn",
            multi_head_attention(y, weights.self_attention, options.attention, trace.scope("self_attn")).output);
    };
    const auto map = [&](const auto& y) {
        return added_to(x, "encoder_layer", "feed_forward",
                        feed_forward(y, weights.feed_forward, options.feed_forward, trace.scope("feed_forward")));
    };

    // Attend to the other tokens, then map each token by itself; add each result to its input.
    if (options.placement == NormPlacement::pre) {
        const Term attended = trace("residual1[(b,) n, d_model]", x + attend(norm1(x)));
        return T(trace("output[(b,) n, d_model]", attended + map(norm2(attended))));
    }
    const Term attended = norm1(trace("residual1[(b,) n, d_model]", x + attend(x)));
    const Term mapped = norm2(trace("residual2[(b,) n, d_model]", attended + map(attended)));
    return T(trace.alias("output", mapped));
}

template <Sequence T>
T encoder(const T& tokens, const EncoderWeights& weights, const EncoderOptions& given, const Trace& caller)
{
    const Trace trace = caller.module("encoder", [&] { return describe_stack(given, weights.layers.size()); });
    const Term x = trace.input("x[(b,) n, d_model]", Term(tokens));
    const EncoderOptions options = with_joined_mask(x, given, trace);
    return T(stack_layers(x, weights, options, trace,
                          [&](const auto& inputs, const EncoderLayerWeights& layer, const Trace& inside) {
                              return encoder_layer(inputs, layer, options, inside);
                          }));
}

ATTN_MAKE_FOR_SEQUENCES(encoder_layer)
ATTN_MAKE_FOR_SEQUENCES(encoder)

} // namespace attn
