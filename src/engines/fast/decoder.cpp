#include "attn/engines/fast/decoder.hpp"

#include "attn/reference/layers/stack.hpp"
#include "expect.hpp"
#include "stack.hpp"

#include "attn/core/shape.hpp"

#include <string>

namespace attn::fast {
namespace {

constexpr std::string_view of_decoder = "fast::decoder_layer";

void expect_fit(const Tokens<const float>& x, const Tokens<const float>& memory, const PackedDecoderLayer& weights,
                const DecoderOptions& options)
{
    if (x.sequences() != memory.sequences() || x.batch.has_value() != memory.batch.has_value())
        throw ShapeError("fast::decoder_layer: x of ", x.sequences(), " sequences and memory of ", memory.sequences(),
                         " must agree in b");
    fast::expect_fit(of_decoder, x.d, x.d, weights.self_attention, options.attention.heads);
    fast::expect_fit(of_decoder, x.d, memory.d, weights.cross_attention, options.attention.heads);
    fast::expect_fit(of_decoder, x.d, weights.feed_forward, options.feed_forward.activation);
    for (const Norm* norm : {&weights.norm1, &weights.norm2, &weights.norm3})
        fast::expect_fit(of_decoder, x.d, *norm);
    expect_numbers(of_decoder, "memory", memory);
}

/// Cross-attention has the scale and the softcap of self-attention, but no positions.
Scoring cross_scoring(const DecoderOptions& options, const Masking& masking, Buffer& buffer)
{
    if (options.memory_mask || options.memory_bias)
        throw Error("fast::decoder_layer: a mask or a bias of the memory is among the options, expected the mask as "
                    "Masking, and no bias");
    MultiHeadOptions cross = options.attention;
    cross.causal.reset();
    cross.positions = HeadPositions::none;
    return scoring_of(cross, masking, buffer);
}

} // namespace

PackedDecoderLayer::PackedDecoderLayer(const DecoderLayerWeights& weights)
    : self_attention(weights.self_attention, "self_attn"),
      cross_attention(weights.cross_attention, "cross_attn"),
      feed_forward(weights.feed_forward),
      norm1(weights.norm1),
      norm2(weights.norm2),
      norm3(weights.norm3)
{
}

void decoder_layer(const Tokens<const float>& x, const Tokens<const float>& memory, const Masking& masking,
                   const Masking& memory_masking, const PackedDecoderLayer& weights, const DecoderOptions& options,
                   const Tokens<float>& output, Workspace& workspace, const Trace& caller)
{
    expect_fit(x, memory, weights, options);
    const Trace trace = caller.observing().module(of_decoder, [&] { return in_float32(describe_layer(options)); });
    const View tokens = begin_tokens(of_decoder, x, output, trace);
    const Sequences sequences{x.n, x.batch}, of_memory{memory.n, memory.batch};
    const ConstView memory_rows = view(memory.numbers, memory.rows(), memory.d);
    record_input(trace, "memory[(b,) m, d_memory]", of_memory, memory_rows);
    const SelfAttention self(x, masking, weights.self_attention, options.attention, workspace, trace);
    const Scoring to_memory = cross_scoring(options, memory_masking, workspace.positions);

    // Attend to the other tokens, then to the memory, then map each token by itself; add each result to its input.
    const Setting setting = setting_of(options, workspace);
    Stream stream(tokens, sequences, 3, setting, trace);
    stream.add("self_attn", weights.norm1, self);
    stream.add("cross_attn", weights.norm2, [&](const View& rows, const View& result, const Trace& inside) {
        inside.alias("memory", "memory");
        const AttentionMaps& maps = weights.cross_attention;
        const AttentionTask task{.heads = options.attention.heads,
                                 .scoring = to_memory,
                                 .queries = sequences,
                                 .keys = of_memory,
                                 .key_value = matrix_in(workspace.key_value, memory.rows(), maps.key_value.d_out())};
        attend(rows, memory_rows, "memory", maps, task, result, workspace, inside);
    });
    stream.add("feed_forward", weights.norm3, [&](const View& rows, const View& result, const Trace& inside) {
        feed_forward(rows, weights.feed_forward, options.feed_forward.activation, sequences, result, workspace, inside);
    });
    stream.finish();
}

} // namespace attn::fast
