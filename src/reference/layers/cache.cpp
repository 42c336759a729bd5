#include "attn/reference/layers/cache.hpp"

#include "placed_heads.hpp"

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

/// One head's rows of the cache, then its new ones.
template <Sequence T>
T append(std::string_view step, std::string_view past_name, const T& past, std::string_view added_name, const T& added,
         std::size_t head, std::size_t heads, const Trace& trace)
{
    const HeadColumns of_head = columns_of(past.shape(feature_axis<T>), head, heads);
    return trace(
        step,
        [&] {
            return "concat(" + of_head.of(past_name) + ", " + std::string(added_name) +
                   ", axis=" + std::to_string(token_axis<T>) + ")";
        },
        concat_rows(columns(past, of_head.begin, of_head.end), added));
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
    expect_even_split(cross, "key", shape_of(memory.keys), heads);
    expect_even_split(cross, "value", shape_of(memory.values), heads);
}

} // namespace

template <Sequence T>
CachedMultiHeadOf<T>
cached_self_attention(const T& new_tokens, const std::optional<std::type_identity_t<KeyValueCacheOf<T>>>& past,
                      const std::optional<AnyMask>& given_mask, const std::optional<AnyBias>& given_bias,
                      const MultiHeadWeights& weights, const GroupedQueryOptions& options, const Trace& caller)
{
    const Sources<T> given = sources(new_tokens);
    expect_projectable(self, given, weights);
    const Groups groups = expect_groups(self, weights, given_bias, options);
    if (past)
        expect_past(new_tokens, *past, weights);
    const bool is_grouped = groups.is_grouped();
    const Trace trace = caller.module(self, [&] { return describe(groups, given_mask, given_bias, options); });
    const Sources<T> from = name_sources(given, trace);
    KeyValueCacheOf<T> before;
    if (past)
        before = {
            trace.input(is_grouped ? "past_keys[(b,) past, g_d_k]" : "past_keys[(b,) past, h_d_k]", past->keys),
            trace.input(is_grouped ? "past_values[(b,) past, g_d_v]" : "past_values[(b,) past, h_d_v]", past->values)};

    // Make queries, keys and values of the new tokens only, at the positions where the cache ends.
    const PackedAxes axes = is_grouped ? PackedAxes{"g_d_k", "g_d_v"} : PackedAxes{};
    const PackedHeads<T> packed =
        project(from, weights, {axes.key, axes.value, past ? std::string_view("n") : axes.tokens}, trace);
    GroupedQueryOptions placed = options;
    const std::size_t earlier = past ? before.keys.shape(token_axis<T>) : 0;
    placed.rotary.first += earlier;

    // Attend in each head to the keys in the cache and to the new ones.
    const std::size_t n = new_tokens.shape(token_axis<T>), m = earlier + n;
    const auto mask = join_masks(n, m, {.given = given_mask, .causal = options.causal}, trace);
    const auto shared_bias = share("bias[(b,) n, m]", given_bias, trace);
    const auto query_norm = shared_norm("query_norm", weights.query_norm, trace);
    const auto key_norm = shared_norm("key_norm", weights.key_norm, trace);
    CachedMultiHeadOf<T> result;
    std::vector<T> contexts, kept_keys, kept_values;
    for (std::size_t i = 0; i < groups.heads; ++i) {
        const Trace head = trace.scope("head", i);
        const std::size_t group = groups.of(i);
        const T queries =
            placed_head(of_query("queries[(b,) n, d_k]"), packed.query, i, groups.heads, query_norm, placed, head);
        T keys = placed_head(of_key(past ? "new_keys[(b,) n, d_k]" : "keys[(b,) m, d_k]"), packed.key, group,
                             groups.groups, key_norm, placed, head);
        if (past)
            keys = append("keys[(b,) m, d_k]", "past_keys", before.keys, "new_keys", keys, group, groups.groups, head);
        T values = split_head(past ? "new_values[(b,) n, d_v]" : "values[(b,) m, d_v]", "value", packed.value, group,
                              groups.groups, head);
        if (past)
            values = append("values[(b,) m, d_v]", "past_values", before.values, "new_values", values, group,
                            groups.groups, head);
        const auto bias = head_bias(shared_bias, n, m, i, options, head);
        AttentionOf<T> attention =
            scaled_dot_product_attention(queries, keys, values, of_head("mask", mask, i, groups.heads, head), bias,
                                         {.scale = options.scale, .softcap = options.softcap}, head);
        contexts.push_back(std::move(attention.context));
        result.weights.push_back(std::move(attention.weights));
        if (group == kept_keys.size()) { // the others of its group have the same
            kept_keys.push_back(std::move(keys));
            kept_values.push_back(std::move(values));
        }
    }
    const T merged = merge_heads(contexts, trace);
    result.output = map_output(merged, weights.output, trace);

    // Keep what later tokens will attend to.
    result.cache.keys = cached(is_grouped ? "cache_keys[(b,) m, g_d_k]" : "cache_keys[(b,) m, h_d_k]", "keys",
                               kept_keys, groups, trace);
    result.cache.values = cached(is_grouped ? "cache_values[(b,) m, g_d_v]" : "cache_values[(b,) m, h_d_v]", "values",
                                 kept_values, groups, trace);
    return result;
}

template decltype(cached_self_attention<Matrix>) cached_self_attention<Matrix>;
template decltype(cached_self_attention<Tensor3>) cached_self_attention<Tensor3>;

MultiHead cached_cross_attention(const Matrix& tokens, const KeyValueCache& memory, const std::optional<AnyMask>& given,
                                 const MultiHeadWeights& weights, const MultiHeadOptions& options, const Trace& caller)
{
    expect_memory(tokens, memory, weights, options.heads);
    const Trace trace = caller.module(cross, [&] {
        return StepOptions{{"heads", std::to_string(options.heads)},
                           {"mask", describe(given, options.causal)},
                           {"scale", options.scale ? exact_text(*options.scale) : "1/sqrt(d_k)"}};
    });
    const Matrix& x = trace.input("x[n, d_model]", tokens);
    const Matrix& key = trace.input("key[m, h_d_k]", memory.keys);
    const Matrix& value = trace.input("value[m, h_d_v]", memory.values);

    // Only the queries are new.
    const PackedHeads<Matrix> packed{linear(x, weights.query, {"x", "query", "d_model", "h_d_k"}, trace), key, value};
    MergedHeads<Matrix> heads = attend_by_heads(packed, given, {}, options, trace);
    return {map_output(heads.merged, weights.output, trace), std::move(heads.weights)};
}

} // namespace attn
