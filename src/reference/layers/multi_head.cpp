#include "attn/reference/layers/multi_head.hpp"

#include "heads.hpp"

namespace attn {

template <Sequence T>
MergedHeads<T> attend_by_heads(const PackedHeads<T>& packed, const std::optional<AnyMask>& given_mask,
                               const std::optional<AnyBias>& given_bias, const MultiHeadOptions& options,
                               const Trace& trace)
{
    // Name mask and bias once: heads share them, or have a part of them each.
    const std::size_t n = packed.query.shape(token_axis<T>), m = packed.key.shape(token_axis<T>);
    const auto mask = join_masks(n, m, {.given = given_mask, .causal = options.causal}, trace);
    const auto bias = share("bias[(b,) n, m]", given_bias, trace);

    // Attend in each head with its share of the features.
    std::vector<T> contexts, weights;
    for (std::size_t i = 0; i < options.heads; ++i) {
        const Trace head = trace.scope("head", i);
        const T queries = split_head("queries[(b,) n, d_k]", "query", packed.query, i, options.heads, head);
        const T keys = split_head("keys[(b,) m, d_k]", "key", packed.key, i, options.heads, head);
        const T values = split_head("values[(b,) m, d_v]", "value", packed.value, i, options.heads, head);
        AttentionOf<T> attention = scaled_dot_product_attention(
            queries, keys, values, of_head("mask", mask, i, options.heads, head),
            of_head("bias", bias, i, options.heads, head), {.scale = options.scale, .softcap = options.softcap}, head);
        contexts.push_back(std::move(attention.context));
        weights.push_back(std::move(attention.weights));
    }

    // Put their contexts side by side.
    return {merge_heads(contexts, trace), std::move(weights)};
}

namespace {

constexpr std::string_view multi_head = "multi_head_attention";

template <Sequence T>
void expect_fit(const Sources<T>& from, const MultiHeadWeights& weights, std::size_t heads)
{
    const Matrix &query = weights.query.weight, &key = weights.key.weight, &value = weights.value.weight;
    expect_projectable(multi_head, from, weights);
    expect_agreement(multi_head, "h d_k", {"query weights", query, 1}, {"key weights", key, 1});
    if (weights.output)
        expect_agreement(multi_head, "h d_v", {"value weights", value, 1},
                         {"output weights", weights.output->weight, 0});
    if (weights.query_norm || weights.key_norm)
        throw Error(std::string(multi_head) +
                    ": the weights have a norm of queries or keys, which only grouped_query_attention has");
    expect_even_split(multi_head, "query weights", shape_of(query), heads);
    expect_even_split(multi_head, "value weights", shape_of(value), heads);
}

template <Sequence T>
MultiHeadOf<T> attend(const Sources<T>& given, const std::optional<AnyMask>& mask, const std::optional<AnyBias>& bias,
                      const MultiHeadWeights& weights, const MultiHeadOptions& options, const Trace& caller)
{
    expect_fit(given, weights, options.heads);
    const Trace trace = caller.module(multi_head, [&] {
        StepOptions described{{"heads", std::to_string(options.heads)},
                              {"mask", describe(mask, options.causal)},
                              {"bias", bias ? "given" : "none"},
                              {"scale", options.scale ? exact_text(*options.scale) : "1/sqrt(d_k)"}};
        if (options.softcap)
            described.emplace_back("softcap", exact_text(*options.softcap));
        return described;
    });
    const Sources<T> from = name_sources(given, trace);

    // Make the queries, keys and values of all heads by three products.
    const PackedHeads<T> packed = project(from, weights, {}, trace);

    // Attend in each head, then mix the heads by the output map.
    MergedHeads<T> heads = attend_by_heads(packed, mask, bias, options, trace);
    return {map_output(heads.merged, weights.output, trace), std::move(heads.weights)};
}

} // namespace

template <Sequence T>
MultiHeadOf<T> multi_head_attention(const T& x, const std::optional<AnyMask>& mask, const std::optional<AnyBias>& bias,
                                    const MultiHeadWeights& weights, const MultiHeadOptions& options,
                                    const Trace& trace)
{
    return attend(sources(x), mask, bias, weights, options, trace);
}

template <Sequence T>
MultiHeadOf<T> multi_head_attention(const T& x, const T& memory, const std::optional<AnyMask>& mask,
                                    const std::optional<AnyBias>& bias, const MultiHeadWeights& weights,
                                    const MultiHeadOptions& options, const Trace& trace)
{
    return attend(sources(x, memory), mask, bias, weights, options, trace);
}

template <Sequence T>
MultiHeadOf<T> multi_head_attention(const T& x, const T& memory, const T& value_memory,
                                    const std::optional<AnyMask>& mask, const std::optional<AnyBias>& bias,
                                    const MultiHeadWeights& weights, const MultiHeadOptions& options,
                                    const Trace& trace)
{
    return attend(sources(x, memory, value_memory), mask, bias, weights, options, trace);
}

#define ATTN_INSTANTIATE(T)                                                                                            \
    template MergedHeads<T> attend_by_heads(const PackedHeads<T>&, const std::optional<AnyMask>&,                      \
                                            const std::optional<AnyBias>&, const MultiHeadOptions&, const Trace&);     \
    template MultiHeadOf<T> multi_head_attention(const T&, const std::optional<AnyMask>&,                              \
                                                 const std::optional<AnyBias>&, const MultiHeadWeights&,               \
                                                 const MultiHeadOptions&, const Trace&);                               \
    template MultiHeadOf<T> multi_head_attention(const T&, const T&, const std::optional<AnyMask>&,                    \
                                                 const std::optional<AnyBias>&, const MultiHeadWeights&,               \
                                                 const MultiHeadOptions&, const Trace&);                               \
    template MultiHeadOf<T> multi_head_attention(const T&, const T&, const T&, const std::optional<AnyMask>&,          \
                                                 const std::optional<AnyBias>&, const MultiHeadWeights&,               \
                                                 const MultiHeadOptions&, const Trace&);
ATTN_INSTANTIATE(Matrix)
ATTN_INSTANTIATE(Tensor3)
#undef ATTN_INSTANTIATE

} // namespace attn
