#include "attn/reference/attention/weigh.hpp"

#include "attn/core/choices.hpp"
#include "attn/core/shape.hpp"
#include "attn/reference/ops/matmul.hpp"
#include "attn/reference/ops/softmax.hpp"

namespace attn {
namespace {

constexpr Choice<Normalization> normalizations[] = {{Normalization::softmax, "softmax"}, {Normalization::none, "none"}};

} // namespace

std::string_view name_of(Normalization normalization) { return row_for<normalizations>(normalization).name; }

StepOptions describe(const WeighingOptions& options)
{
    return {{"mask", describe(options.mask, options.causal)},
            {"normalization", std::string(name_of(options.normalization))}};
}

template <Attending T>
AttentionOf<T> weigh_values(T scores, std::string_view name, const T& values, const WeighingOptions& options,
                            const Trace& trace)
{
    expect_same_batch("attention", name, scores, "values", values);
    expect_agreement("attention", "m", {name, scores, feature_axis<T>}, {"values", values, token_axis<T>});
    const bool is_softmax = options.normalization == Normalization::softmax;

    // Remove forbidden pairs before softmax, not after: the weights of what is left sum to one.
    const std::size_t n = scores.shape(token_axis<T>), m = scores.shape(feature_axis<T>);
    if (const auto mask = join_masks(
            n, m, {.given = options.mask, .causal = options.causal, .has_heads = std::same_as<T, Tensor4>}, trace)) {
        scores = trace(
            "masked[(b,) n, m]", [&] { return "where(mask, " + std::string(name) + (is_softmax ? ", -inf)" : ", 0)"); },
            apply_mask(*mask, std::move(scores), is_softmax ? minus_infinity : 0.0));
        name = "masked";
    }

    // Normalise each query's scores to weights.
    if (!is_softmax)
        trace.alias("weights", name);
    T weights = !is_softmax ? std::move(scores)
                            : trace(
                                  "weights[(b,) n, m]", [&] { return "softmax(" + std::string(name) + ")"; },
                                  softmax(std::move(scores)));

    // Average the values by the weights.
    T context = trace("context[(b,) n, d_v]", "weights @ values", matmul(weights, values));
    return {std::move(context), std::move(weights)};
}

template decltype(weigh_values<Matrix>) weigh_values<Matrix>;
template decltype(weigh_values<Tensor3>) weigh_values<Tensor3>;
template decltype(weigh_values<Tensor4>) weigh_values<Tensor4>;

} // namespace attn
