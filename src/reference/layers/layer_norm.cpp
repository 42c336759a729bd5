#include "attn/reference/layers/layer_norm.hpp"

#include "attn/core/shape.hpp"
#include "attn/reference/ops/terms.hpp"

namespace attn {

template <Sequence T>
T layer_norm(const T& tokens, const LayerNormWeights& weights, const LayerNormOptions& options, const Trace& caller)
{
    constexpr std::size_t features = feature_axis<T>;
    expect_agreement("layer_norm", "d_model", {"x", tokens, features}, {"gain", weights.gain, 0});
    if (weights.bias)
        expect_agreement("layer_norm", "d_model", {"x", tokens, features}, {"bias", *weights.bias, 0});
    const Trace trace = caller.module("layer_norm", [&] {
        return StepOptions{{"epsilon", exact_text(options.epsilon)}};
    });
    const Term x = trace.input("x[(b,) n, d_model]", Term(tokens));

    // Subtract each token's mean, and scale it to variance 1. Epsilon prevents a division by zero where all features are equal.
    const Term mean = trace("mean[(b,) n]", mean_along(x, -1));
    const Term centered = x - column(mean);
    const Term variance = trace("variance[(b,) n]", mean_along(square(centered), -1));
    const Term normalized = trace("normalized[(b,) n, d_model]", centered / sqrt(column(variance) + options.epsilon));

    // Apply the learned gain and bias of each feature.
    const Term gain = trace.input("gain[d_model]", Term(weights.gain));
    if (!weights.bias)
        return T(trace("output[(b,) n, d_model]", normalized * gain));
    const Term bias = trace.input("bias[d_model]", Term(*weights.bias));
    return T(trace("output[(b,) n, d_model]", normalized * gain + bias));
}

ATTN_MAKE_FOR_SEQUENCES(layer_norm)

} // namespace attn
