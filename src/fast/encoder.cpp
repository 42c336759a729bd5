#include "attn/fast/encoder.hpp"

#include "../layers/stack.hpp"
#include "stack.hpp"

namespace attn::fast {
namespace {

constexpr std::string_view of_encoder = "fast::encoder_layer";

void expect_fit(std::size_t d_model, const PackedEncoderLayer& weights, const EncoderOptions& options)
{
    fast::expect_fit(of_encoder, d_model, d_model, weights.self_attention, options.attention.heads);
    fast::expect_fit(of_encoder, d_model, weights.feed_forward);
    fast::expect_fit(of_encoder, d_model, weights.norm1);
    fast::expect_fit(of_encoder, d_model, weights.norm2);
}

/// What each layer of a stack does with the tokens.
class EncoderCall {
public:
    EncoderCall(const Tokens<const float>& x, const Masking& masking, std::size_t d_k, const EncoderOptions& options,
                Workspace& workspace, const Trace& trace)
        : sequences_{x.n, x.batch},
          options_(options),
          setting_(setting_of(options, workspace)),
          scoring_(scoring_of(options.attention, masking, workspace.positions))
    {
        if (options.attention.positions == HeadPositions::rotary)
            rotation_ = rotation_of(options.attention.rotary, 0, x.n, d_k, workspace.positions, trace);
    }

    /// Attends to the other tokens, then maps each token by itself; adds each result to its input.
    void layer(const View& tokens, const PackedEncoderLayer& weights, const Trace& trace) const
    {
        Stream stream(tokens, sequences_, 2, setting_, trace);
        Workspace& workspace = setting_.workspace;
        stream.add("self_attn", weights.norm1, [&](const View& x, const View& result, const Trace& inside) {
            const AttentionMaps& maps = weights.self_attention;
            const AttentionTask task{.heads = options_.attention.heads,
                                     .scoring = scoring_,
                                     .rotation = rotation_ ? &*rotation_ : nullptr,
                                     .queries = sequences_,
                                     .keys = sequences_,
                                     .key_value = room_for(workspace.key_value, x.rows, maps.key_value.d_out())};
            attend(x, x, "x", maps, task, result, workspace, inside);
        });
        stream.add("feed_forward", weights.norm2, [&](const View& x, const View& result, const Trace& inside) {
            feed_forward(x, weights.feed_forward, options_.feed_forward.activation, sequences_, result, workspace,
                         inside);
        });
        stream.finish();
    }

    const Sequences& sequences() const { return sequences_; }

private:
    Sequences sequences_;
    const EncoderOptions& options_;
    Setting setting_;
    Scoring scoring_;
    std::optional<Rotation> rotation_;
};

std::size_t head_size(const PackedEncoderLayer& layer, const EncoderOptions& options)
{
    return layer.self_attention.query.d_out() / options.attention.heads;
}

} // namespace

PackedEncoderLayer::PackedEncoderLayer(const EncoderLayerWeights& weights)
    : self_attention(weights.self_attention, "self_attn"),
      feed_forward(weights.feed_forward),
      norm1(weights.norm1),
      norm2(weights.norm2)
{
}

PackedEncoder::PackedEncoder(const EncoderWeights& weights)
    : layers(weights.layers.begin(), weights.layers.end())
{
    if (weights.norm)
        norm.emplace(*weights.norm);
}

void encoder_layer(const Tokens<const float>& x, const Masking& masking, const PackedEncoderLayer& weights,
                   const EncoderOptions& options, const Tokens<float>& output, Workspace& workspace,
                   const Trace& caller)
{
    expect_fit(x.d, weights, options);
    const Trace trace = caller.module(of_encoder, [&] { return in_float32(describe(options)); });
    const View tokens = begin_tokens(of_encoder, x, output, trace);
    const EncoderCall call(x, masking, head_size(weights, options), options, workspace, trace);
    call.layer(tokens, weights, trace);
}

void encoder(const Tokens<const float>& x, const Masking& masking, const PackedEncoder& weights,
             const EncoderOptions& options, const Tokens<float>& output, Workspace& workspace, const Trace& caller)
{
    for (const PackedEncoderLayer& layer : weights.layers)
        expect_fit(x.d, layer, options);
    const Trace trace =
        caller.module("fast::encoder", [&] { return in_float32(describe(options, weights.layers.size())); });
    const View tokens = begin_tokens("fast::encoder", x, output, trace);
    const std::size_t d_k = weights.layers.empty() ? 0 : head_size(weights.layers.front(), options);
    const EncoderCall call(x, masking, d_k, options, workspace, trace);
    pass_through(weights.layers, weights.norm, options, tokens, call.sequences(), trace,
                 [&](const PackedEncoderLayer& layer, const Trace& inside) { call.layer(tokens, layer, inside); });
}

} // namespace attn::fast
