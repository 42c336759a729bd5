#include "attn/reference/models/keras_attention.hpp"

#include "../layers/heads.hpp"

namespace attn {
namespace {

constexpr std::string_view function = "keras_attention";

template <Sequence T>
void expect_mask(std::string_view role, std::string_view letter, const std::optional<PerToken<T>>& mask,
                 std::string_view tokens_role, const T& tokens)
{
    if (!mask)
        return;
    if constexpr (std::same_as<T, Tensor3>)
        expect_agreement(function, "b", {role, *mask, 0}, {tokens_role, tokens, 0});
    expect_agreement(function, letter, {role, *mask, token_axis<T>}, {tokens_role, tokens, token_axis<T>});
}

template <Sequence T>
void expect_fit(const Sources<T>& from, const KerasMasksOf<T>& masks, const MultiHeadWeights& maps, std::size_t heads)
{
    expect_projectable(function, from, maps);
    expect_agreement(function, "h d_k", {"query weights", maps.query.weight, 1}, {"key weights", maps.key.weight, 1});
    expect_even_split(function, "query weights", shape_of(maps.query.weight), heads);
    expect_even_split(function, "value weights", shape_of(maps.value.weight), heads);
    expect_mask("value mask", "m", masks.values, "memory", from.keys);
    expect_mask("query mask", "n", masks.queries, "x", from.queries);
}

/// How the bias follows from the masks that there are.
std::string bias_formula(bool has_values, bool is_right, std::size_t n, std::size_t m, double penalty)
{
    const std::string times = " * " + exact_text(penalty);
    const std::string values = "(value_mask[..., None, :] - 1)" + times;
    const std::string right =
        "(arange(" + std::to_string(m) + ") > arange(" + std::to_string(n) + ")[:, None])" + times;
    if (!is_right)
        return "repeat(" + values + ", " + std::to_string(n) + ", axis=-2)";
    return has_values ? values + " - " + right : "-" + right;
}

/// Subtracts the penalty for each pair whose key comes after its query.
template <Sequence T>
T less_later_keys(T bias, double penalty)
{
    const std::size_t n = bias.shape(token_axis<T>), m = bias.shape(feature_axis<T>);
    for (std::size_t i = 0; i < bias.size(); ++i)
        bias.data()[i] -= i % m > i / m % n ? penalty : 0;
    return bias;
}

/// A large negative number for each pair that is forbidden, twice as large where both masks forbid it. Which keys come later is
/// the same in each sequence, so without a mask of the values the bias is (n, m).
template <Sequence T>
OptionalBias bias_of(const T& x, const T& memory, const std::optional<PerToken<T>>& given,
                     const KerasAttentionOptions& options, const Trace& trace)
{
    const std::size_t n = x.shape(token_axis<T>), m = memory.shape(token_axis<T>);
    const auto formula = [&] { return bias_formula(given.has_value(), options.mask_right, n, m, options.penalty); };
    if (!given && !options.mask_right)
        return std::nullopt;
    if (!given)
        return trace("bias[n, m]", formula, less_later_keys(Matrix(Matrix::shape_type{n, m}, 0.0), options.penalty));
    const PerToken<T>& mask = trace.input("value_mask[(b,) m]", *given);
    typename T::shape_type shape = x.shape();
    shape[feature_axis<T>] = m;
    T bias(shape, 0.0);
    for (std::size_t i = 0; i < bias.size(); ++i)
        bias.data()[i] = (mask.data()[i / (n * m) * m + i % m] - 1) * options.penalty;
    return trace("bias[(b,) n, m]", formula,
                 options.mask_right ? less_later_keys(std::move(bias), options.penalty) : std::move(bias));
}

} // namespace

template <Sequence T>
MultiHeadOf<T> keras_attention(const T& x, const T& memory, const T& value_memory, const KerasMasksOf<T>& masks,
                               const KerasAttentionWeights& weights, const KerasAttentionOptions& options,
                               const Trace& caller)
{
    const MultiHeadWeights maps{{weights.query}, {weights.key}, {weights.value}};
    expect_fit(Sources<T>(x, memory, value_memory), masks, maps, options.heads);
    const Trace trace = caller.module(function, [&] {
        return StepOptions{{"heads", std::to_string(options.heads)},
                           {"mask_right", options.mask_right ? "true" : "false"},
                           {"penalty", exact_text(options.penalty)}};
    });
    const NamedSources from = name_sources(Sources<T>(x, memory, value_memory), trace);

    // Make the queries, keys and values of all heads by three products.
    const PackedHeads packed = project(from, maps, {}, trace);

    // Attend in each head, where forbidden pairs lose a large number.
    const OptionalBias bias = bias_of(x, memory, masks.values, options, trace);
    auto heads = attend_by_heads(packed, nullptr, maps, {options.heads, options.heads},
                                 {.heads = options.heads, .bias = bias}, trace);
    if (!masks.queries)
        return {T(trace.alias("output", heads.merged)), all_as<T>(std::move(heads.weights))};

    // Set the output of queries that are padding to zero.
    const Term query_mask = trace.input("query_mask[(b,) n]", Term(*masks.queries));
    return {T(trace("output[(b,) n, h_d_v]", heads.merged * column(query_mask))), all_as<T>(std::move(heads.weights))};
}

template decltype(keras_attention<Matrix>) keras_attention<Matrix>;
template decltype(keras_attention<Tensor3>) keras_attention<Tensor3>;

} // namespace attn
