#include "attn/layers/decoder_cache.hpp"

#include "decoder_blocks.hpp"

namespace attn {
namespace {

/// Self-attention of new tokens, which look at the cached ones and at each other; the cache gets longer.
Matrix look_back(const Trace& layer, std::string_view from, const Matrix& x, std::optional<KeyValueCache>& past,
                 const MultiHeadWeights& weights, MultiHeadOptions options)
{
    const Trace trace = layer.scope("self_attn");
    const Matrix asking = trace("x[n, d_model]", from, x);
    // A single new token may look at everything that is there; of several, each at those before it.
    if (const std::size_t n = x.shape(0), before = past ? past->keys.shape(0) : 0; n > 1) {
        const Mask causal = causal_mask(n, before + n, Causal::bottom_right, trace);
        options.mask = trace("mask[n, m]", "causal", causal);
    }
    CachedMultiHead found = cached_self_attention(asking, past, weights, options, trace);
    past = std::move(found.cache);
    return found.output;
}

/// Cross-attention onto keys and values of the memory that are there already.
Matrix consult(const Trace& layer, std::string_view from, const Matrix& x, const KeyValueCache& memory,
               const MultiHeadWeights& weights, const DecoderOptions& options)
{
    const Trace trace = layer.scope("cross_attn");
    const Matrix asking = trace("x[n, d_model]", from, x);
    trace.input("key[m, h_d_k]", memory.keys);
    trace.input("value[m, h_d_v]", memory.values);
    MultiHeadOptions of_heads{.heads = options.attention.heads, .scale = options.attention.scale};
    if (options.memory_mask)
        of_heads.mask =
            std::visit([&](const auto& mask) -> AnyMask { return trace("mask[(b,) n, m]", "memory_mask", mask); },
                       *options.memory_mask);
    const Matrix query = linear(asking, weights.query,
                                {.input = "x",
                                 .weight = "query_weights[d_model, h_d_k]",
                                 .bias = "query_bias[h_d_k]",
                                 .output = "query[n, h_d_k]"},
                                trace);
    return attend_by_heads(PackedHeads{query, memory.keys, memory.values}, weights.output, of_heads, trace).output;
}

/// A layer on new tokens; its cache gets longer.
Matrix layer_step(const Matrix& x, DecoderLayerCache& cache, const DecoderLayerWeights& weights,
                  const DecoderOptions& options, const Trace& caller)
{
    expect_addable("decoder_step", x, weights);
    const Trace trace = caller.module("decoder_step", [&] { return describe_layer(options); });
    return decoder_blocks(
        x, weights, options, trace,
        [&](std::string_view from, const Matrix& tokens) {
            return look_back(trace, from, tokens, cache.tokens, weights.self_attention, options.attention);
        },
        [&](std::string_view from, const Matrix& tokens) {
            return consult(trace, from, tokens, cache.memory, weights.cross_attention, options);
        });
}

void expect_fit(const DecoderCache& cache, const DecoderWeights& weights, const DecoderOptions& options)
{
    if (cache.layers.size() != weights.layers.size())
        throw ShapeError("decoder_step: the cache has " + std::to_string(cache.layers.size()) +
                         " layers, expected as many as the decoder, " + std::to_string(weights.layers.size()));
    if (options.attention.mask)
        throw Error("decoder_step: the mask of self-attention is causal, expected none to be given");
    if (options.attention.bias)
        throw Error("decoder_step: a bias is for a whole sequence, expected none to be given");
}

} // namespace

DecoderCache start_decoder_cache(const Matrix& memory, const DecoderWeights& weights, const Trace& caller)
{
    const Trace trace = caller.module("start_decoder_cache");
    trace.shared_input("memory[m, d_memory]", memory);
    DecoderCache cache;
    for (std::size_t i = 0; i < weights.layers.size(); ++i) {
        const Trace layer = trace.scope("layers", i);
        const Trace inside = layer.scope("cross_attn");
        const MultiHeadWeights& cross = weights.layers[i].cross_attention;
        Matrix key = linear(memory, cross.key,
                            {.input = "memory",
                             .weight = "key_weights[d_memory, h_d_k]",
                             .bias = "key_bias[h_d_k]",
                             .output = "key[m, h_d_k]"},
                            inside);
        Matrix value = linear(memory, cross.value,
                              {.input = "memory",
                               .weight = "value_weights[d_memory, h_d_v]",
                               .bias = "value_bias[h_d_v]",
                               .output = "value[m, h_d_v]"},
                              inside);
        cache.layers.push_back({{}, {std::move(key), std::move(value)}});
    }
    return cache;
}

DecoderStep decoder_step(const Matrix& x, const DecoderCache& cache, const DecoderWeights& weights,
                         const DecoderOptions& options, const Trace& caller)
{
    expect_fit(cache, weights, options);
    const Trace trace = caller.module("decoder_step", [&] { return describe_stack(options, weights.layers.size()); });
    trace.input("x[n, d_model]", x);
    name_mask("memory_mask[(b,) n, m]", options.memory_mask, trace);

    DecoderCache longer = cache;
    std::size_t i = 0;
    Matrix output = stack_layers(x, weights, options, trace,
                                 [&](const Matrix& tokens, const DecoderLayerWeights& of_layer, const Trace& inside) {
                                     return layer_step(tokens, longer.layers[i++], of_layer, options, inside);
                                 });
    return {std::move(output), std::move(longer)};
}

std::size_t decoder_multiplications(std::size_t n, const DecoderSizes& s)
{
    const std::size_t d = s.d_model;
    return s.layers * (6 * n * d * d + 2 * s.m * d * d + 2 * n * n * d + 2 * n * s.m * d + 2 * n * d * s.d_ff);
}

std::size_t decoder_cache_multiplications(const DecoderSizes& s) { return s.layers * 2 * s.m * s.d_model * s.d_model; }

std::size_t decoder_step_multiplications(std::size_t n, const DecoderSizes& s)
{
    const std::size_t d = s.d_model;
    return s.layers * (6 * d * d + 2 * n * d + 2 * s.m * d + 2 * d * s.d_ff);
}

} // namespace attn
