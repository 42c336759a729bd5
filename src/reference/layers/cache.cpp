#include "attn/reference/layers/cache.hpp"

#include "heads.hpp"

namespace attn {
namespace {

constexpr std::string_view self = "cached_self_attention", cross = "cached_cross_attention";

template <Sequence T>
void expect_past(const T& x, const KeyValueCacheOf<Value<T>>& past, const MultiHeadWeights& weights)
{
    constexpr std::size_t token = token_axis<T>, feature = feature_axis<T>;
    expect_agreement(self, "g d_k", {"past keys", past.keys, feature}, {"key weights", weights.key.weight, 1});
    expect_agreement(self, "g d_v", {"past values", past.values, feature}, {"value weights", weights.value.weight, 1});
    expect_agreement(self, "past", {"past keys", past.keys, token}, {"past values", past.values, token});
    expect_same_batch(self, "x", x, "past keys", past.keys);
    expect_same_batch(self, "past keys", past.keys, "past values", past.values);
}

/// What the heads of a group leave for later tokens, group by group.
/// The keys or values of all heads side by side, for later tokens.
template <Sequence T>
Term<T> kept(std::string_view step, const std::vector<Term<T>>& heads, const Trace& trace)
{
    return trace(step, concat(heads, -1));
}

template <Sequence T>
void expect_memory(const T& x, const KeyValueCache& memory, const MultiHeadWeights& weights, std::size_t heads)
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
CachedMultiHeadOf<T> cached_self_attention(const T& new_tokens, const PastOfTokens<Value<T>>& given_past,
                                           const MultiHeadWeights& weights, const MultiHeadOptions& options,
                                           const Trace& caller)
{
    expect_projectable(self, Sources<T>(new_tokens), weights);
    const Groups groups = expect_groups(self, weights, options);
    if (given_past)
        expect_past(new_tokens, *given_past, weights);
    const Trace trace = caller.module(self, [&] { return describe(groups, options); });
    const NamedSources from = name_sources(Sources<T>(new_tokens), trace);
    const bool is_grouped = groups.is_grouped();
    std::optional<KeyValueCacheOf<Term<Value<T>>>> past;
    if (given_past)
        past = {trace.input(is_grouped ? "past_keys[(b,) past, g_d_k]" : "past_keys[(b,) past, h_d_k]",
                            Term(given_past->keys)),
                trace.input(is_grouped ? "past_values[(b,) past, g_d_v]" : "past_values[(b,) past, h_d_v]",
                            Term(given_past->values))};

    // Make queries, keys and values of the new tokens only.
    PackedAxes axes = axes_of(groups);
    if (past)
        axes.tokens = "n";
    const PackedHeads packed = project(from, weights, axes, trace);

    // Attend in each head to the keys in the cache and to the new ones.
    auto heads = attend_by_heads(packed, past ? &*past : nullptr, weights, groups, options, trace);
    Term output = mix_heads(from.queries, heads.merged, weights, trace);

    // Keep what later tokens will attend to.
    Term keys = kept(is_grouped ? "cache_keys[(b,) m, g_d_k]" : "cache_keys[(b,) m, h_d_k]", heads.keys, trace);
    Term values = kept(is_grouped ? "cache_values[(b,) m, g_d_v]" : "cache_values[(b,) m, h_d_v]", heads.values, trace);
    return {T(std::move(output)),
            all_as<T>(std::move(heads.weights)),
            {Value<T>(std::move(keys)), Value<T>(std::move(values))}};
}

ATTN_MAKE_FOR_SEQUENCES(cached_self_attention)

template <Sequence T>
MultiHeadOf<T> cached_cross_attention(const T& tokens, const KeyValueCache& memory, const MultiHeadWeights& weights,
                                      const MultiHeadOptions& options, const Trace& caller)
{
    expect_memory(tokens, memory, weights, options.heads);
    const Groups groups{options.heads, options.heads};
    const Trace trace = caller.module(cross, [&] { return describe(groups, options); });
    const Term x = trace.input("x[n, d_model]", Term(tokens));
    const Term key = trace.input("key[m, h_d_k]", Term(memory.keys));
    const Term value = trace.input("value[m, h_d_v]", Term(memory.values));

    // Only the queries are new.
    const PackedHeads<Matrix> packed{linear(x, weights.query, {"x", "query", "d_model", "h_d_k"}, trace), key, value};
    auto heads = attend_by_heads(packed, nullptr, weights, groups, options, trace);
    return {T(mix_heads(x, heads.merged, weights, trace)), all_as<T>(std::move(heads.weights))};
}

template decltype(cached_cross_attention<Matrix>) cached_cross_attention<Matrix>;
template decltype(cached_cross_attention<Term<Matrix>>) cached_cross_attention<Term<Matrix>>;

} // namespace attn
