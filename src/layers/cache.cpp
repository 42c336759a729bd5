#include "attn/layers/cache.hpp"

#include "placed_heads.hpp"

namespace attn {
namespace {

constexpr std::string_view self = "cached_self_attention", cross = "cached_cross_attention";

void expect_past(const KeyValueCache& past, const MultiHeadWeights& weights)
{
    expect_agreement(self, "g d_k", {"past keys", past.keys, 1}, {"key weights", weights.key.weight, 1});
    expect_agreement(self, "g d_v", {"past values", past.values, 1}, {"value weights", weights.value.weight, 1});
    expect_agreement(self, "past", {"past keys", past.keys, 0}, {"past values", past.values, 0});
}

/// One head's rows of the cache, then its new ones.
Matrix append(std::string_view step, std::string_view past_name, const Matrix& past, std::string_view added_name,
              const Matrix& added, std::size_t head, std::size_t heads, const Trace& trace)
{
    const HeadColumns of_head = columns_of(past.shape(1), head, heads);
    return trace(
        step, [&] { return "concat(" + of_head.of(past_name) + ", " + std::string(added_name) + ", axis=0)"; },
        concat_rows(columns(past, of_head.begin, of_head.end), added));
}

/// What the heads of a group leave for later tokens, group by group.
Matrix cached(std::string_view step, std::string_view name, const std::vector<Matrix>& kept, const Groups& groups,
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

CachedMultiHead cached_self_attention(const Matrix& new_tokens, const std::optional<KeyValueCache>& past,
                                      const std::optional<AnyMask>& given_mask,
                                      const std::optional<AnyBias>& given_bias, const MultiHeadWeights& weights,
                                      const GroupedQueryOptions& options, const Trace& caller)
{
    const Sources<Matrix> given = sources(new_tokens);
    expect_projectable(self, given, weights);
    const Groups groups = expect_groups(self, weights, given_bias, options);
    if (past)
        expect_past(*past, weights);
    const bool is_grouped = groups.is_grouped();
    const Trace trace = caller.module(self, [&] { return describe(groups, given_mask, given_bias, options); });
    const Sources<Matrix> from = name_sources(given, trace);
    KeyValueCache before;
    if (past)
        before = {trace.input(is_grouped ? "past_keys[past, g_d_k]" : "past_keys[past, h_d_k]", past->keys),
                  trace.input(is_grouped ? "past_values[past, g_d_v]" : "past_values[past, h_d_v]", past->values)};

    // Make queries, keys and values of the new tokens only, at the positions where the cache ends.
    const PackedAxes axes = is_grouped ? PackedAxes{"g_d_k", "g_d_v"} : PackedAxes{};
    const PackedHeads<Matrix> packed =
        project(from, weights, {axes.key, axes.value, past ? std::string_view("n") : axes.tokens}, trace);
    GroupedQueryOptions placed = options;
    placed.rotary.first += past ? before.keys.shape(0) : 0;

    // Attend in each head to the keys in the cache and to the new ones.
    const std::size_t n = new_tokens.shape(0), m = n + (past ? before.keys.shape(0) : 0);
    const auto mask = join_masks(n, m, {.given = given_mask, .causal = options.causal}, trace);
    const auto shared_bias = share("bias[(b,) n, m]", given_bias, trace);
    CachedMultiHead result;
    std::vector<Matrix> contexts, kept_keys, kept_values;
    for (std::size_t i = 0; i < groups.heads; ++i) {
        const Trace head = trace.scope("head", i);
        const std::size_t group = groups.of(i);
        const Matrix queries =
            placed_head("rotary_query", "queries[(b,) n, d_k]", "query", packed.query, i, groups.heads, placed, head);
        Matrix keys = placed_head("rotary_key", past ? "new_keys[n, d_k]" : "keys[m, d_k]", "key", packed.key, group,
                                  groups.groups, placed, head);
        if (past)
            keys = append("keys[m, d_k]", "past_keys", before.keys, "new_keys", keys, group, groups.groups, head);
        Matrix values = split_head(past ? "new_values[n, d_v]" : "values[m, d_v]", "value", packed.value, group,
                                   groups.groups, head);
        if (past)
            values = append("values[m, d_v]", "past_values", before.values, "new_values", values, group, groups.groups,
                            head);
        const auto bias = head_bias(shared_bias, n, m, i, options, head);
        Attention attention =
            scaled_dot_product_attention(queries, keys, values, mask, bias, {.scale = options.scale}, head);
        contexts.push_back(std::move(attention.context));
        result.weights.push_back(std::move(attention.weights));
        if (group == kept_keys.size()) { // the others of its group have the same
            kept_keys.push_back(std::move(keys));
            kept_values.push_back(std::move(values));
        }
    }
    const Matrix merged = merge_heads(contexts, trace);
    result.output = map_output(merged, weights.output, trace);

    // Keep what later tokens will attend to.
    result.cache.keys =
        cached(is_grouped ? "cache_keys[m, g_d_k]" : "cache_keys[m, h_d_k]", "keys", kept_keys, groups, trace);
    result.cache.values =
        cached(is_grouped ? "cache_values[m, g_d_v]" : "cache_values[m, h_d_v]", "values", kept_values, groups, trace);
    return result;
}

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
