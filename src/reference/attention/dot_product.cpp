#include "attn/reference/attention/dot_product.hpp"

#include "attn/core/shape.hpp"
#include "attn/reference/ops/matmul.hpp"
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
T scaled_by(double factor, T scores)
{
    for (double& score : scores)
        score *= factor;
    return scores;
}

/// Scores, and the step that they are.
template <Attending T>
struct Named {
    std::string_view name;
    T scores;
};

/// Scores between minus the softcap and the softcap, where there is one.
template <Attending T>
Named<T> cap(Named<T> given, std::optional<double> softcap, const Trace& trace)
{
    if (!softcap)
        return given;
    const auto formula = [&] {
        return exact_text(*softcap) + " * tanh(" + std::string(given.name) + " / " + exact_text(*softcap) + ")";
    };
    return {"capped", trace("capped[(b,) n, m]", formula, T(*softcap * xt::tanh(given.scores / *softcap)))};
}

/// Scores plus a bias, where there is one.
template <Attending T>
Named<T> add(Named<T> given, const OptionalBias& bias, const Trace& trace)
{
    if (!bias)
        return given;
    const auto formula = [&] { return std::string(given.name) + " + bias"; };
    return {"biased", trace("biased[(b,) n, m]", formula, add_bias(*bias, std::move(given.scores)))};
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
    const T& queries = trace.input("queries[(b,) n, d_k]", q);
    const T& keys = trace.input("keys[(b,) m, d_k]", k);
    const T& values = trace.input("values[(b,) m, d_v]", v);

    // Compare every query with every key.
    expect_memory_for_scores(queries, keys);
    T scores = trace("scores[(b,) n, m]", "queries @ keys.T", matmul(queries, transpose(keys)));

    return weigh_values(std::move(scores), "scores", values, options, trace);
}

template <Attending T>
AttentionOf<T> scaled_dot_product_attention(const T& q, const T& k, const T& v, const AttentionOptions& options,
                                            const Trace& caller)
{
    expect_fit("scaled_dot_product_attention", q, k, v);
    const Trace trace = caller.module("scaled_dot_product_attention", [&] { return describe(options); });
    const T& queries = trace.input("queries[(b,) n, d_k]", q);
    const T& keys = trace.input("keys[(b,) m, d_k]", k);
    const T& values = trace.input("values[(b,) m, d_v]", v);

    // Compare every query with every key.
    expect_memory_for_scores(queries, keys);
    T scores = trace("scores[(b,) n, m]", "queries @ keys.T", matmul(queries, transpose(keys)));

    // Keep the comparison's size independent of d_k.
    const double scale = scale_factor(options.scale, keys.shape(feature_axis<T>));
    T scaled = trace(
        "scaled[(b,) n, m]", [&] { return scale_formula(options.scale); }, scaled_by(scale, std::move(scores)));

    // Limit the size of the scores.
    Named<T> capped = cap<T>({"scaled", std::move(scaled)}, options.softcap, trace);

    // Add the bias, which depends on positions, not on queries and keys.
    const auto bias = share("bias[(b,) n, m]", options.bias, trace);
    Named<T> biased = add(std::move(capped), bias, trace);

    return weigh_values(std::move(biased.scores), biased.name, values,
                        {.mask = options.mask, .causal = options.causal, .sinks = options.sinks}, trace);
}

template decltype(dot_product_attention<Matrix>) dot_product_attention<Matrix>;
template decltype(dot_product_attention<Tensor3>) dot_product_attention<Tensor3>;
template decltype(dot_product_attention<Tensor4>) dot_product_attention<Tensor4>;
template decltype(scaled_dot_product_attention<Matrix>) scaled_dot_product_attention<Matrix>;
template decltype(scaled_dot_product_attention<Tensor3>) scaled_dot_product_attention<Tensor3>;
template decltype(scaled_dot_product_attention<Tensor4>) scaled_dot_product_attention<Tensor4>;

} // namespace attn
