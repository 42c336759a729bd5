#include "attn/reference/layers/layer_norm.hpp"

#include "attn/core/shape.hpp"
#include "attn/reference/ops/batch.hpp"
#include "attn/reference/ops/reduce.hpp"

#include <string>

namespace attn {
template <Sequence T>
T layer_norm(const T& tokens, const LayerNormWeights& weights, const LayerNormOptions& options, const Trace& caller)
{
    constexpr std::size_t features = feature_axis<T>;
    expect_agreement("layer_norm", "d_model", {"x", tokens, features}, {"gain", weights.gain, 0});
    if (weights.bias)
        expect_agreement("layer_norm", "d_model", {"x", tokens, features}, {"bias", *weights.bias, 0});
    const std::string epsilon = exact_text(options.epsilon);
    const Trace trace = caller.module("layer_norm", [&] { return StepOptions{{"epsilon", epsilon}}; });
    const T& x = trace.input("x[(b,) n, d_model]", tokens);
    const std::size_t d_model = weights.gain.size();

    // Subtract each token's mean.
    const PerToken<T> mean = trace("mean[(b,) n]", "mean(x, axis=-1)", mean_of_features(x));
    const T centered = x - spread(mean, d_model);

    // Scale it to variance 1. Epsilon prevents a division by zero where all features of a token are equal.
    const PerToken<T> variance = trace("variance[(b,) n]", "mean((x - mean[..., None]) ** 2, axis=-1)",
                                       mean_of_features(T(centered * centered)));
    const PerToken<T> deviation = xt::sqrt(variance + options.epsilon);
    const T normalized = trace(
        "normalized[(b,) n, d_model]",
        [&] { return "(x - mean[..., None]) / sqrt(variance[..., None] + " + epsilon + ")"; },
        T(centered / spread(deviation, d_model)));

    // Apply the learned gain and bias of each feature.
    const Vector& gain = trace.input("gain[d_model]", weights.gain);
    if (!weights.bias)
        return trace("output[(b,) n, d_model]", "normalized * gain", T(normalized * gain));
    const Vector& bias = trace.input("bias[d_model]", *weights.bias);
    return trace("output[(b,) n, d_model]", "normalized * gain + bias", T(normalized * gain + bias));
}

template Matrix layer_norm(const Matrix&, const LayerNormWeights&, const LayerNormOptions&, const Trace&);
template Tensor3 layer_norm(const Tensor3&, const LayerNormWeights&, const LayerNormOptions&, const Trace&);

} // namespace attn
