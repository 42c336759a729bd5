#include "attn/reference/attention/dot_product.hpp"

#include "attn/core/shape.hpp"
#include "attn/reference/ops/terms.hpp"
#include "scores_memory.hpp"

namespace attn {
namespace {

template <Attending T>
void expect_fit(std::string_view function, const T& queries, const T& keys, const T& values)
{
    expect_same_batch(function, "queries", queries, "keys", keys);
    expect_same_batch(function, "keys", keys, "values", values);
    expect_agreement(function, "d_k", {"queries", queries, feature_axis<T>}, {"keys", keys, feature_axis<T>});
    expect_agreement(function, "m", {"keys", keys, token_axis<T>}, {"values", values, token_axis<T>});
}

/// The scores times a factor, in their storage.
template <Attending T>
Term<T> scaled_by(double factor, Term<T> scores)
{
    T scaled = std::move(scores).take();
    for (double& score : scaled)
        score *= factor;
    return Term(std::move(scaled));
}

StepOptions describe(const AttentionOptions& options)
{
    const auto& [mask, bias, causal, scale, softcap, sinks] = options;
    StepOptions all{
        {"mask", describe(mask, causal)}, {"bias", bias ? "given" : "none"}, {"scale", describe_scale(scale)}};
    if (softcap)
        all.emplace_back("softcap", exact_text(*softcap));
    if (sinks)
        all.emplace_back("sinks", "given");
    return all;
}

} // namespace

template <Attending T>
AttentionOf<T> dot_product_attention(const T& q, const T& k, const T& v, const WeighingOptions& options,
                                     const Trace& caller)
{
    expect_fit("dot_product_attention", q, k, v);
    const Trace trace = caller.module("dot_product_attention", [&] { return describe(options); });
    const Term queries = trace.input("queries[(b,) n, d_k]", Term(q));
    const Term keys = trace.input("keys[(b,) m, d_k]", Term(k));
    const Term values = trace.input("values[(b,) m, d_v]", Term(v));

    // Compare every query with every key.
    expect_memory_for_scores(q, k);
    Term scores = trace("scores[(b,) n, m]", matmul(queries, transpose(keys)));

    auto [context, weights] = weigh_values(std::move(scores), values, options, trace);
    return {T(std::move(context)), T(std::move(weights))};
}

template <Attending T>
AttentionOf<T> scaled_dot_product_attention(const T& q, const T& k, const T& v, const AttentionOptions& options,
                                            const Trace& caller)
{
    expect_fit("scaled_dot_product_attention", q, k, v);
    const Trace trace = caller.module("scaled_dot_product_attention", [&] { return describe(options); });
    const Term queries = trace.input("queries[(b,) n, d_k]", Term(q));
    const Term keys = trace.input("keys[(b,) m, d_k]", Term(k));
    const Term values = trace.input("values[(b,) m, d_v]", Term(v));

    // Compare every query with every key.
    expect_memory_for_scores(q, k);
    Term scores = trace("scores[(b,) n, m]", matmul(queries, transpose(keys)));

    // Keep the comparison's size independent of d_k.
    const double scale = scale_factor(options.scale, keys.shape(feature_axis<T>));
    scores = trace(
        "scaled[(b,) n, m]", [&] { return scale_formula(options.scale); }, scaled_by(scale, std::move(scores)));

    // Limit the size of the scores.
    if (const auto& softcap = options.softcap)
        scores = trace("capped[(b,) n, m]", *softcap * tanh(scores / *softcap));

    // Add the bias, which depends on positions, not on queries and keys.
    if (const auto bias = share("bias[(b,) n, m]", options.bias, trace))
        scores = trace("biased[(b,) n, m]", plus_bias(std::move(scores), *bias, trace));

    auto [context, weights] = weigh_values(
        std::move(scores), values, {.mask = options.mask, .causal = options.causal, .sinks = options.sinks}, trace);
    return {T(std::move(context)), T(std::move(weights))};
}

#define ATTN_INSTANTIATE(T)                                                                                            \
    template decltype(dot_product_attention<T>) dot_product_attention<T>;                                              \
    template decltype(scaled_dot_product_attention<T>) scaled_dot_product_attention<T>;
ATTN_FOR_SEQUENCES(ATTN_INSTANTIATE)
ATTN_INSTANTIATE(Tensor4)
ATTN_INSTANTIATE(Term<Tensor4>)
#undef ATTN_INSTANTIATE

} // namespace attn
