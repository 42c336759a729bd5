#include "attn/reference/layers/rms_norm.hpp"

#include "attn/core/shape.hpp"
#include "attn/reference/ops/batch.hpp"
#include "attn/reference/ops/reduce.hpp"

#include <string>

namespace attn {
namespace {

/// Scales each token to a mean square of 1. Epsilon prevents a division by zero for a token of zeros.
template <Sequence T>
T scaled_to_one(std::string_view label, const T& x, double epsilon, const Trace& trace)
{
    const PerToken<T> mean_square = trace("mean_square[(b,) n]", "mean(x ** 2, axis=-1)", mean_of_features(T(x * x)));
    const PerToken<T> length = xt::sqrt(mean_square + epsilon);
    return trace(
        label, [&] { return "x / sqrt(mean_square[..., None] + " + exact_text(epsilon) + ")"; },
        T(x / spread(length, x.shape(feature_axis<T>))));
}

} // namespace

template <Sequence T>
T rms_norm(const T& tokens, const RmsNormWeights& weights, const RmsNormOptions& options, const Trace& caller)
{
    expect_agreement("rms_norm", "d_model", {"x", tokens, feature_axis<T>}, {"gain", weights.gain, 0});
    const double added = options.epsilon;
    const bool adds_one = options.adds_one;
    const std::string epsilon = exact_text(added);
    const Trace trace = caller.module("rms_norm", [&] {
        return adds_one ? StepOptions{{"epsilon", epsilon}, {"adds_one", "true"}} : StepOptions{{"epsilon", epsilon}};
    });
    const T& x = trace.input("x[(b,) n, d_model]", tokens);

    const T normalized = scaled_to_one("normalized[(b,) n, d_model]", x, added, trace);

    // Apply the learned gain of each feature.
    const Vector& gain = trace.input("gain[d_model]", weights.gain);
    if (adds_one)
        return trace("output[(b,) n, d_model]", "normalized * (1 + gain)", T(normalized * (1 + gain)));
    return trace("output[(b,) n, d_model]", "normalized * gain", T(normalized * gain));
}

template <Sequence T>
T rms_norm(const T& tokens, double epsilon, const Trace& caller)
{
    const Trace trace = caller.module("rms_norm", [&] {
        return StepOptions{{"epsilon", exact_text(epsilon)}, {"gain", "none"}};
    });
    return scaled_to_one("output[(b,) n, d_model]", trace.input("x[(b,) n, d_model]", tokens), epsilon, trace);
}

template Matrix rms_norm(const Matrix&, double, const Trace&);
template Tensor3 rms_norm(const Tensor3&, double, const Trace&);
template Matrix rms_norm(const Matrix&, const RmsNormWeights&, const RmsNormOptions&, const Trace&);
template Tensor3 rms_norm(const Tensor3&, const RmsNormWeights&, const RmsNormOptions&, const Trace&);

} // namespace attn
