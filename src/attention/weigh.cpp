#include "attn/attention/weigh.hpp"

#include "attn/ops/matmul.hpp"
#include "attn/ops/softmax.hpp"
#include "attn/shape.hpp"

#include <limits>

namespace attn {

StepOptions describe(const std::optional<AnyMask>& mask, const WeighingOptions& options)
{
    return {{"mask", describe(mask, options.causal)},
            {"normalization", options.normalization == Normalization::softmax ? "softmax" : "none"}};
}

template <Attending T>
AttentionOf<T> weigh_values(const T& scores, std::string_view name, const T& values,
                            const std::optional<AnyMask>& given, const WeighingOptions& options, const Trace& trace)
{
    expect_same_batch("attention", name, scores, "values", values);
    expect_agreement("attention", "m", {name, scores, feature_axis<T>}, {"values", values, token_axis<T>});
    const bool is_softmax = options.normalization == Normalization::softmax;

    // Remove forbidden pairs before softmax, not after: the weights of what is left sum to one.
    T allowed = scores;
    std::string_view allowed_name = name;
    const std::size_t n = scores.shape(token_axis<T>), m = scores.shape(feature_axis<T>);
    const MaskParts parts{.given = given, .causal = options.causal, .has_heads = std::same_as<T, Tensor4>};
    if (const auto mask = join_masks(n, m, parts, trace)) {
        allowed = trace(
            "masked[(b,) n, m]", [&] { return "where(mask, " + std::string(name) + (is_softmax ? ", -inf)" : ", 0)"); },
            apply_mask(*mask, scores, is_softmax ? -std::numeric_limits<double>::infinity() : 0.0));
        allowed_name = "masked";
    }

    // Normalise each query's scores to weights.
    if (!is_softmax)
        trace.alias("weights", allowed_name);
    T weights = !is_softmax ? allowed
                            : trace(
                                  "weights[(b,) n, m]", [&] { return "softmax(" + std::string(allowed_name) + ")"; },
                                  softmax(allowed));

    // Average the values by the weights.
    T context = trace("context[(b,) n, d_v]", "weights @ values", matmul(weights, values));
    return {std::move(context), std::move(weights)};
}

template decltype(weigh_values<Matrix>) weigh_values<Matrix>;
template decltype(weigh_values<Tensor3>) weigh_values<Tensor3>;
template decltype(weigh_values<Tensor4>) weigh_values<Tensor4>;

} // namespace attn
