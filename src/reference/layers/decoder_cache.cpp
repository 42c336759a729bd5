#include "attn/reference/layers/decoder_cache.hpp"

#include "decoder_blocks.hpp"

namespace attn {
namespace {

/// A layer on new tokens, whose keys and values are added to its cache.
Term<Matrix> layer_step(const Term<Matrix>& x, DecoderLayerCache& cache, const DecoderLayerWeights& weights,
                        const DecoderOptions& options, const Trace& caller)
{
    const Trace trace = caller.module("decoder_step", [&] { return describe_layer(options); });
    return decoder_blocks(
        "decoder_step", trace.input("x[n, d_model]", x), weights, options, trace,
        [&](const Term<Matrix>& tokens, const Trace& self_attn) {
            // A single new token attends to everything that is there; of several, each to those before it.
            MultiHeadOptions causal = options.attention;
            if (tokens.shape(0) > 1)
                causal.causal = Causal::bottom_right;
            auto attended = cached_self_attention(tokens, cache.tokens, weights.self_attention, causal, self_attn);
            cache.tokens = std::move(attended.cache);
            return attended.output;
        },
        [&](const Term<Matrix>& tokens, const Trace& cross_attn) {
            const Term queries = cross_attn.input("x[n, d_model]", tokens);
            name_memory_mask(options, cross_attn);
            return cached_cross_attention(queries, cache.memory, weights.cross_attention, cross_options(options),
                                          cross_attn)
                .output;
        });
}

void expect_fit(const DecoderCache& cache, const DecoderWeights& weights, const DecoderOptions& options)
{
    if (cache.layers.size() != weights.layers.size())
        throw ShapeError("decoder_step: the cache has ", cache.layers.size(),
                         " layers, expected as many as the decoder, ", weights.layers.size());
    if (options.attention.mask || options.attention.bias)
        throw Error(
            "decoder_step: a new token attends to all tokens before it: self-attention takes no mask and no bias here");
}

} // namespace

template <Sequence T>
CachedDecoderLayerOf<T> cached_decoder_layer(const T& tokens, const T& given_memory, const PastOfTokens<Value<T>>& past,
                                             const DecoderLayerWeights& weights, const DecoderOptions& given,
                                             const Trace& caller)
{
    expect_same_batch("cached_decoder_layer", "x", tokens, "memory", given_memory);
    const Trace trace = caller.module("cached_decoder_layer", [&] { return describe_layer(given); });
    const Term x = trace.input("x[(b,) n, d_model]", Term(tokens));
    const Term memory = trace.shared_input("memory[(b,) m, d_memory]", Term(given_memory));
    const std::size_t n = x.shape(token_axis<T>), earlier = past ? past->keys.shape(token_axis<T>) : 0;
    DecoderOptions options = given;
    options.attention.mask = join_masks(
        n, earlier + n, {.given = given.attention.mask, .causal = given.attention.causal, .past = earlier}, trace);
    options.attention.bias = share("bias[(b,) n, m]", given.attention.bias, trace);
    options.attention.causal.reset();
    options.memory_mask = share("memory_mask[(b,) n, m]", given.memory_mask, trace);
    options.memory_bias = share("memory_bias[(b,) n, m]", given.memory_bias, trace);

    std::optional<KeyValueCacheOf<Value<T>>> cache;
    Term output = decoder_blocks(
        "cached_decoder_layer", x, weights, options, trace,
        [&](const auto& y, const Trace& self_attn) {
            auto attended = cached_self_attention(y, past, weights.self_attention, options.attention, self_attn);
            cache = std::move(attended.cache);
            return attended.output;
        },
        [&](const auto& y, const Trace& cross_attn) {
            return attend_to_memory(y, memory, weights, options, cross_attn);
        });
    return {T(std::move(output)), std::move(*cache)};
}

template decltype(cached_decoder_layer<Matrix>) cached_decoder_layer<Matrix>;
template decltype(cached_decoder_layer<Tensor3>) cached_decoder_layer<Tensor3>;

DecoderCache start_decoder_cache(const Matrix& given_memory, const DecoderWeights& weights, const Trace& caller)
{
    const Trace trace = caller.module("start_decoder_cache");
    const Term memory = trace.shared_input("memory[m, d_memory]", Term(given_memory));
    DecoderCache cache;
    for (std::size_t i = 0; i < weights.layers.size(); ++i) {
        const Trace layer = trace.scope("layers", i);
        const Trace cross_attn = layer.scope("cross_attn");
        const MultiHeadWeights& maps = weights.layers[i].cross_attention;
        Term key = linear(memory, maps.key, {"memory", "key", "d_memory", "h_d_k", "m"}, cross_attn);
        Term value = linear(memory, maps.value, {"memory", "value", "d_memory", "h_d_v", "m"}, cross_attn);
        cache.layers.push_back({{}, {Matrix(std::move(key)), Matrix(std::move(value))}});
    }
    return cache;
}

DecoderStep decoder_step(const Matrix& tokens, const DecoderCache& cache, const DecoderWeights& weights,
                         const DecoderOptions& given, const Trace& caller)
{
    expect_fit(cache, weights, given);
    const Trace trace = caller.module("decoder_step", [&] { return describe_stack(given, weights.layers.size()); });
    const Term x = trace.input("x[n, d_model]", Term(tokens));
    DecoderOptions options = given;
    options.attention.causal.reset();
    options.memory_mask = share("memory_mask[(b,) n, m]", given.memory_mask, trace);
    options.memory_bias = share("memory_bias[(b,) n, m]", given.memory_bias, trace);

    DecoderCache longer = cache;
    std::size_t i = 0;
    Term output = stack_layers(x, weights, options, trace,
                               [&](const Term<Matrix>& inputs, const DecoderLayerWeights& layer, const Trace& inside) {
                                   return layer_step(inputs, longer.layers[i++], layer, options, inside);
                               });
    return {Matrix(std::move(output)), std::move(longer)};
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
