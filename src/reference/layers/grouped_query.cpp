#include "attn/reference/layers/grouped_query.hpp"

#include "placed_heads.hpp"

namespace attn {
namespace {

constexpr std::string_view grouped_query = "grouped_query_attention";

} // namespace

std::size_t key_value_heads(const MultiHeadWeights& weights, std::size_t heads)
{
    const Matrix& query = weights.query.weight;
    const Matrix& key = weights.key.weight;
    const std::size_t d_k = heads == 0 ? 0 : query.shape(1) / heads;
    if (d_k == 0 || query.shape(1) % heads != 0 || key.shape(1) == 0 || key.shape(1) % d_k != 0)
        throw ShapeError(
            "attention: query weights " + to_string(shape_of(query)) + " of " + std::to_string(heads) +
            " heads and key weights " + to_string(shape_of(key)) +
            " do not make heads of one size: expected columns that are a multiple of d_k, those of a head");
    return key.shape(1) / d_k;
}

Groups expect_groups(std::string_view caller, const MultiHeadWeights& weights, const std::optional<AnyBias>& bias,
                     const GroupedQueryOptions& options)
{
    const Matrix &query = weights.query.weight, &value = weights.value.weight;
    expect_even_split(caller, "query weights", shape_of(query), options.heads);
    const Groups groups{options.heads, key_value_heads(weights, options.heads)};
    if (groups.heads % groups.groups != 0)
        throw ShapeError(std::string(caller) + ": " + std::to_string(groups.heads) +
                         " heads can't be divided evenly among " + std::to_string(groups.groups) + " key/value heads");
    expect_even_split(caller, "value weights", shape_of(value), groups.groups);
    if (weights.output && value.shape(1) * groups.heads != weights.output->weight.shape(0) * groups.groups)
        throw ShapeError(std::string(grouped_query) + ": value weights " + to_string(shape_of(value)) + " of " +
                         std::to_string(groups.groups) + " key/value heads and output weights " +
                         to_string(shape_of(weights.output->weight)) + " of " + std::to_string(groups.heads) +
                         " heads must agree in d_v, the features of one head");
    if (bias && options.positions == HeadPositions::alibi)
        throw Error(std::string(caller) + ": ALiBi is a bias, and another one is given: add them and give the sum");
    return groups;
}

StepOptions describe(const Groups& groups, const std::optional<AnyMask>& mask, const std::optional<AnyBias>& bias,
                     const GroupedQueryOptions& options)
{
    constexpr std::string_view positions[] = {"none", "rotary", "alibi"};
    StepOptions described{{"heads", std::to_string(groups.heads)},
                          {"key_value_heads", std::to_string(groups.groups)},
                          {"mask", describe(mask, options.causal)},
                          {"bias", bias ? "given" : "none"},
                          {"scale", options.scale ? exact_text(*options.scale) : "1/sqrt(d_k)"},
                          {"positions", std::string(positions[static_cast<std::size_t>(options.positions)])}};
    if (options.softcap)
        described.emplace_back("softcap", exact_text(*options.softcap));
    return described;
}

namespace {

template <Sequence T>
MultiHeadOf<T> attend(const Sources<T>& given, const std::optional<AnyMask>& given_mask,
                      const std::optional<AnyBias>& given_bias, const MultiHeadWeights& weights,
                      const GroupedQueryOptions& options, const Trace& caller)
{
    expect_projectable(grouped_query, given, weights);
    const Groups groups = expect_groups(grouped_query, weights, given_bias, options);
    const Trace trace = caller.module(grouped_query, [&] { return describe(groups, given_mask, given_bias, options); });
    const Sources<T> from = name_sources(given, trace);

    // Make the queries of all heads, and the keys and values of all groups, by three products.
    const PackedAxes axes = groups.is_grouped() ? PackedAxes{"g_d_k", "g_d_v"} : PackedAxes{};
    const PackedHeads<T> packed = project(from, weights, axes, trace);

    // Attend in each head, with its queries and the keys and values of its group.
    const std::size_t n = from.queries.shape(token_axis<T>), m = from.keys.shape(token_axis<T>);
    const auto mask = join_masks(n, m, {.given = given_mask, .causal = options.causal}, trace);
    const auto shared_bias = share("bias[(b,) n, m]", given_bias, trace);
    const auto query_norm = shared_norm("query_norm", weights.query_norm, trace);
    const auto key_norm = shared_norm("key_norm", weights.key_norm, trace);
    MultiHeadOf<T> result;
    std::vector<T> contexts;
    for (std::size_t i = 0; i < groups.heads; ++i) {
        const Trace head = trace.scope("head", i);
        const T queries =
            placed_head(of_query("queries[(b,) n, d_k]"), packed.query, i, groups.heads, query_norm, options, head);
        const T keys =
            placed_head(of_key("keys[(b,) m, d_k]"), packed.key, groups.of(i), groups.groups, key_norm, options, head);
        const T values = split_head("values[(b,) m, d_v]", "value", packed.value, groups.of(i), groups.groups, head);
        const auto bias = head_bias(shared_bias, n, m, i, options, head);
        AttentionOf<T> attention =
            scaled_dot_product_attention(queries, keys, values, of_head("mask", mask, i, groups.heads, head), bias,
                                         {.scale = options.scale, .softcap = options.softcap}, head);
        contexts.push_back(std::move(attention.context));
        result.weights.push_back(std::move(attention.weights));
    }

    // Put the contexts side by side, and mix the heads by the output map.
    const T merged = merge_heads(contexts, trace);
    result.output = map_output(merged, weights.output, trace);
    return result;
}

} // namespace

template <Sequence T>
MultiHeadOf<T> grouped_query_attention(const T& x, const std::optional<AnyMask>& mask,
                                       const std::optional<AnyBias>& bias, const MultiHeadWeights& weights,
                                       const GroupedQueryOptions& options, const Trace& trace)
{
    return attend(sources(x), mask, bias, weights, options, trace);
}

template <Sequence T>
MultiHeadOf<T> grouped_query_attention(const T& x, const T& memory, const std::optional<AnyMask>& mask,
                                       const std::optional<AnyBias>& bias, const MultiHeadWeights& weights,
                                       const GroupedQueryOptions& options, const Trace& trace)
{
    return attend(sources(x, memory), mask, bias, weights, options, trace);
}

template <Sequence T>
MultiHeadOf<T> grouped_query_attention(const T& x, const T& memory, const T& value_memory,
                                       const std::optional<AnyMask>& mask, const std::optional<AnyBias>& bias,
                                       const MultiHeadWeights& weights, const GroupedQueryOptions& options,
                                       const Trace& trace)
{
    return attend(sources(x, memory, value_memory), mask, bias, weights, options, trace);
}

bool is_plain(const MultiHeadWeights& weights, HeadPositions positions)
{
    return positions == HeadPositions::none && weights.key.weight.shape(1) == weights.query.weight.shape(1) &&
           !weights.query_norm && !weights.key_norm;
}

template <Sequence T>
MultiHeadOf<T> self_attention(const T& x, const MaskAndBias& mask, const MultiHeadWeights& weights,
                              const GroupedQueryOptions& options, const Trace& trace)
{
    if (is_plain(weights, options.positions))
        return multi_head_attention(
            x, mask.mask, mask.bias, weights,
            {.heads = options.heads, .causal = options.causal, .scale = options.scale, .softcap = options.softcap},
            trace);
    return grouped_query_attention(x, mask.mask, mask.bias, weights, options, trace);
}

#define ATTN_INSTANTIATE(T)                                                                                            \
    template MultiHeadOf<T> grouped_query_attention(const T&, const std::optional<AnyMask>&,                           \
                                                    const std::optional<AnyBias>&, const MultiHeadWeights&,            \
                                                    const GroupedQueryOptions&, const Trace&);                         \
    template MultiHeadOf<T> grouped_query_attention(const T&, const T&, const std::optional<AnyMask>&,                 \
                                                    const std::optional<AnyBias>&, const MultiHeadWeights&,            \
                                                    const GroupedQueryOptions&, const Trace&);                         \
    template MultiHeadOf<T> grouped_query_attention(const T&, const T&, const T&, const std::optional<AnyMask>&,       \
                                                    const std::optional<AnyBias>&, const MultiHeadWeights&,            \
                                                    const GroupedQueryOptions&, const Trace&);                         \
    template MultiHeadOf<T> self_attention(const T&, const MaskAndBias&, const MultiHeadWeights&,                      \
                                           const GroupedQueryOptions&, const Trace&);
ATTN_INSTANTIATE(Matrix)
ATTN_INSTANTIATE(Tensor3)
#undef ATTN_INSTANTIATE

} // namespace attn
