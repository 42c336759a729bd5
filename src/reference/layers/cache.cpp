#include "attn/reference/layers/cache.hpp"

#include "heads.hpp"

namespace attn {
namespace {

constexpr std::string_view self = "cached_self_attention", cross = "cached_cross_attention";

template <Sequence T>
void expect_past(const T& x, const KeyValueCacheOf<T>& past, const MultiHeadWeights& weights)
{
    constexpr std::size_t token = token_axis<T>, feature = feature_axis<T>;
    expect_agreement(self, "g d_k", {"past keys", past.keys, feature}, {"key weights", weights.key.weight, 1});
    expect_agreement(self, "g d_v", {"past values", past.values, feature}, {"value weights", weights.value.weight, 1});
    expect_agreement(self, "past", {"past keys", past.keys, token}, {"past values", past.values, token});
    expect_same_batch(self, "x", x, "past keys", past.keys);
    expect_same_batch(self, "past keys", past.keys, "past values", past.values);
}

/// What the heads of a group leave for later tokens, group by group.
template <Sequence T>
T cached(std::string_view step, std::string_view name, const std::vector<T>& kept, const Groups& groups,
         const Trace& trace)
{
    return trace(
        step, [&] { return merging(name, groups.heads, groups.heads / groups.groups); }, concat_columns(kept));
}

void expect_memory(const Matrix& x, const KeyValueCache& memory, const MultiHeadWeights& weights, std::size_t heads)
{
    expect_agreement(cross, "d_model", {"x", x, 1}, {"query weights", weights.query.weight, 0});
    expect_agreement(cross, "m", {"key", memory.keys, 0}, {"value", memory.values, 0});
    expect_agreement(cross, "h d_k", {"query weights", weights.query.weight, 1}, {"key", memory.keys, 1});
    if (weights.output)
        expect_agreement(cross, "h d_v", {"value", memory.values, 1}, {"output weights", weights.output->weight, 0});
    if (weights.gate) {
        expect_agreement(cross, "d_model", {"x", x, 1}, {"gate weights", weights.gate->weight, 0});
        expect_agreement(cross, "h d_v", {"value", memory.values, 1}, {"gate weights", weights.gate->weight, 1});
    }
    expect_even_split(cross, "key", shape_of(memory.keys), heads);
    expect_even_split(cross, "value", shape_of(memory.values), heads);
}

} // namespace

template <Sequence T>
CachedMultiHeadOf<T> cached_self_attention(const T& new_tokens, const PastOfTokens<T>& given_past,
                                           const MultiHeadWeights& weights, const MultiHeadOptions& options,
                                           const Trace& caller)
{
    expect_projectable(self, Sources<T>(new_tokens), weights);
    const Groups groups = expect_groups(self, weights, options);
    if (given_past)
        expect_past(new_tokens, *given_past, weights);
    const Trace trace = caller.module(self, [&] { return describe(groups, options); });
    const Sources<T> from = name_sources(Sources<T>(new_tokens), trace);
    const bool is_grouped = groups.is_grouped();
    std::optional<KeyValueCacheOf<T>> past;
    if (given_past)
        past = {
            trace.input(is_grouped ? "past_keys[(b,) past, g_d_k]" : "past_keys[(b,) past, h_d_k]", given_past->keys),
            trace.input(is_grouped ? "past_values[(b,) past, g_d_v]" : "past_values[(b,) past, h_d_v]",
                        given_past->values)};

    // Make queries, keys and values of the new tokens only.
    PackedAxes axes = axes_of(groups);
    if (past)
        axes.tokens = "n";
    const PackedHeads<T> packed = project(from, weights, axes, trace);

    // Attend in each head to the keys in the cache and to the new ones.
    AttendedHeads<T> heads = attend_by_heads(packed, past ? &*past : nullptr, weights, groups, options, trace);
    T output = mix_heads(from.queries, heads.merged, weights, trace);

    // Keep what later tokens will attend to.
    T keys = cached(is_grouped ? "cache_keys[(b,) m, g_d_k]" : "cache_keys[(b,) m, h_d_k]", "keys", heads.keys, groups,
                    trace);
    T values = cached(is_grouped ? "cache_values[(b,) m, g_d_v]" : "cache_values[(b,) m, h_d_v]", "values",
                      heads.values, groups, trace);
    return {std::move(output), std::move(heads.weights), {std::move(keys), std::move(values)}};
}

template decltype(cached_self_attention<Matrix>) cached_self_attention<Matrix>;
template decltype(cached_self_attention<Tensor3>) cached_self_attention<Tensor3>;

MultiHead cached_cross_attention(const Matrix& tokens, const KeyValueCache& memory, const MultiHeadWeights& weights,
                                 const MultiHeadOptions& options, const Trace& caller)
{
    expect_memory(tokens, memory, weights, options.heads);
    const Groups groups{options.heads, options.heads};
    const Trace trace = caller.module(cross, [&] { return describe(groups, options); });
    const Matrix& x = trace.input("x[n, d_model]", tokens);
    const Matrix& key = trace.input("key[m, h_d_k]", memory.keys);
    const Matrix& value = trace.input("value[m, h_d_v]", memory.values);

    // Only the queries are new.
    const PackedHeads<Matrix> packed{linear(x, weights.query, {"x", "query", "d_model", "h_d_k"}, trace), key, value};
    AttendedHeads<Matrix> heads = attend_by_heads<Matrix>(packed, nullptr, weights, groups, options, trace);
    return {mix_heads(x, heads.merged, weights, trace), std::move(heads.weights)};
}

} // namespace attn
