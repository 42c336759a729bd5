#include "attn/engines/fast/encoder.hpp"

#include "attn/reference/layers/stack.hpp"
#include "stack.hpp"

#include "attn/core/shape.hpp"

namespace attn::fast {
namespace {

constexpr std::string_view of_encoder = "fast::encoder_layer";

void expect_fit(std::string_view function, std::size_t d_model, const PackedEncoderLayer& weights,
                const EncoderOptions& options)
{
    fast::expect_fit(function, d_model, d_model, weights.self_attention, options.attention.heads);
    fast::expect_fit(function, d_model, weights.feed_forward, options.feed_forward.activation);
    fast::expect_fit(function, d_model, weights.norm1);
    fast::expect_fit(function, d_model, weights.norm2);
}

/// Attends to the other tokens, then maps each token by itself; adds each result to its input.
void pass_layer(const View& tokens, const Sequences& sequences, const PackedEncoderLayer& weights,
                const SelfAttention& attention, const EncoderOptions& options, Workspace& workspace, const Trace& trace)
{
    const Setting setting = setting_of(options, workspace);
    Stream stream(tokens, sequences, 2, setting, trace);
    stream.add("self_attn", weights.norm1, [&](const View& x, const View& result, const Trace& inside) {
        attention.of_layer(weights.self_attention, x, result, inside);
    });
    stream.add("feed_forward", weights.norm2, [&](const View& x, const View& result, const Trace& inside) {
        feed_forward(x, weights.feed_forward, options.feed_forward.activation, sequences, result, workspace, inside);
    });
    stream.finish();
}

} // namespace

bool computes(Activation activation) { return find_kernel(activation) != nullptr; }

PackedEncoderLayer::PackedEncoderLayer(const EncoderLayerWeights& weights)
    : self_attention(weights.self_attention, "self_attn"),
      feed_forward(weights.feed_forward),
      norm1(weights.norm1),
      norm2(weights.norm2)
{
}

PackedEncoder::PackedEncoder(const EncoderWeights& weights) : layers(weights.layers.begin(), weights.layers.end())
{
    if (weights.norm)
        norm.emplace(*weights.norm);
}

void encoder_layer(const Tokens<const float>& x, const Masking& masking, const PackedEncoderLayer& weights,
                   const EncoderOptions& options, const Tokens<float>& output, Workspace& workspace,
                   const Trace& caller)
{
    expect_fit(of_encoder, x.d, weights, options);
    const Trace trace = caller.observing().module(of_encoder, [&] { return in_float32(describe_layer(options)); });
    const View tokens = begin_tokens(of_encoder, x, output, trace);
    const SelfAttention attention(x, masking, weights.self_attention, options.attention, workspace, trace);
    pass_layer(tokens, {x.n, x.batch}, weights, attention, options, workspace, trace);
}

void encoder(const Tokens<const float>& x, const Masking& masking, const PackedEncoder& weights,
             const EncoderOptions& options, const Tokens<float>& output, Workspace& workspace, const Trace& caller)
{
    constexpr std::string_view of_stack = "fast::encoder";
    if (weights.layers.empty())
        throw ShapeError("fast::encoder: the weights have no layers");
    for (const PackedEncoderLayer& layer : weights.layers)
        expect_fit(of_stack, x.d, layer, options);
    if (weights.norm)
        fast::expect_fit(of_stack, x.d, *weights.norm);
    const Trace trace =
        caller.observing().module(of_stack, [&] { return in_float32(describe_stack(options, weights.layers.size())); });
    const View tokens = begin_tokens(of_stack, x, output, trace);
    const Sequences sequences{x.n, x.batch};
    const SelfAttention attention(x, masking, weights.layers[0].self_attention, options.attention, workspace, trace);
    pass_through(weights.layers, weights.norm, options, tokens, sequences, trace,
                 [&](const PackedEncoderLayer& layer, const Trace& inside) {
                     pass_layer(tokens, sequences, layer, attention, options, workspace, inside);
                 });
}

} // namespace attn::fast
