#include "attn/attention/dot_product.hpp"

#include "attn/ops/matmul.hpp"
#include "attn/shape.hpp"

#include <cmath>

namespace attn {
namespace {

template <Sequence T>
void expect_fit(std::string_view function, const T& queries, const T& keys, const T& values)
{
    expect_same_batch(function, "queries", queries, "keys", keys);
    expect_same_batch(function, "keys", keys, "values", values);
    expect_agreement(function, "d_k", {"queries", queries, feature_axis<T>}, {"keys", keys, feature_axis<T>});
    expect_agreement(function, "m", {"keys", keys, token_axis<T>}, {"values", values, token_axis<T>});
}

std::string scale_text(const AttentionOptions& options, std::string_view otherwise)
{
    return options.scale ? exact_text(*options.scale) : std::string(otherwise);
}

} // namespace

template <Sequence T>
AttentionOf<T> dot_product_attention(const T& q, const T& k, const T& v, const std::optional<AnyMask>& mask,
                                     const WeighingOptions& options, const Trace& caller)
{
    expect_fit("dot_product_attention", q, k, v);
    const Trace trace = caller.module("dot_product_attention", [&] { return describe(mask, options); });
    const T& queries = trace.input("queries[(b,) n, d_k]", q);
    const T& keys = trace.input("keys[(b,) m, d_k]", k);
    const T& values = trace.input("values[(b,) m, d_v]", v);

    // Compare every query with every key.
    const T scores = trace("scores[(b,) n, m]", "queries @ keys.T", matmul(queries, transpose(keys)));

    return weigh_values(scores, "scores", values, mask, options, trace);
}

template <Sequence T>
AttentionOf<T> scaled_dot_product_attention(const T& q, const T& k, const T& v, const std::optional<AnyMask>& mask,
                                            const std::optional<AnyBias>& given_bias, const AttentionOptions& options,
                                            const Trace& caller)
{
    expect_fit("scaled_dot_product_attention", q, k, v);
    const Trace trace = caller.module("scaled_dot_product_attention", [&] {
        return StepOptions{{"mask", describe(mask, options.causal)},
                           {"bias", given_bias ? "given" : "none"},
                           {"scale", scale_text(options, "1/sqrt(d_k)")}};
    });
    const T& queries = trace.input("queries[(b,) n, d_k]", q);
    const T& keys = trace.input("keys[(b,) m, d_k]", k);
    const T& values = trace.input("values[(b,) m, d_v]", v);

    // Compare every query with every key.
    const T scores = trace("scores[(b,) n, m]", "queries @ keys.T", matmul(queries, transpose(keys)));

    // Keep the comparison's size independent of d_k.
    const double scale = options.scale.value_or(1.0 / std::sqrt(static_cast<double>(keys.shape(feature_axis<T>))));
    const T scaled = trace(
        "scaled[(b,) n, m]",
        [&] { return options.scale ? "scores * " + scale_text(options, "") : "scores / sqrt(keys.shape[-1])"; },
        T(scores * scale));
    const std::optional<AnyBias> bias = share("bias[(b,) n, m]", given_bias, trace);
    if (!bias)
        return weigh_values(scaled, "scaled", values, mask, {.causal = options.causal}, trace);

    // Prefer some pairs of positions to others, whatever their keys are.
    const T biased = trace("biased[(b,) n, m]", "scaled + bias", add_bias(*bias, scaled));
    return weigh_values(biased, "biased", values, mask, {.causal = options.causal}, trace);
}

template decltype(dot_product_attention<Matrix>) dot_product_attention<Matrix>;
template decltype(dot_product_attention<Tensor3>) dot_product_attention<Tensor3>;
template decltype(scaled_dot_product_attention<Matrix>) scaled_dot_product_attention<Matrix>;
template decltype(scaled_dot_product_attention<Tensor3>) scaled_dot_product_attention<Tensor3>;

} // namespace attn
