#include "attn/layers/layer_norm.hpp"

#include "attn/ops/batch.hpp"
#include "attn/ops/reduce.hpp"
#include "attn/shape.hpp"

#include <algorithm>
#include <string>

namespace attn {
namespace {

/// One number per token, repeated for each of its features.
Matrix spread(const Vector& numbers, std::size_t features)
{
    Matrix all(Matrix::shape_type{numbers.size(), features});
    for (std::size_t token = 0; token < numbers.size(); ++token)
        std::fill_n(&all(token, 0), features, numbers(token));
    return all;
}

Tensor3 spread(const Matrix& numbers, std::size_t features)
{
    Vector tokens(Vector::shape_type{numbers.size()});
    std::ranges::copy(numbers, tokens.begin());
    return batch_of(spread(tokens, features), numbers.shape(0), numbers.shape(1));
}

Vector mean_of_features(const Matrix& x) { return mean_along(x, 1); }
Matrix mean_of_features(const Tensor3& x)
{
    const Vector means = mean_along(tokens_of(x), 1);
    Matrix by_sequence(Matrix::shape_type{x.shape(0), x.shape(1)});
    std::ranges::copy(means, by_sequence.begin());
    return by_sequence;
}

} // namespace

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

    // Move each token to mean 0.
    const PerToken<T> mean = trace("mean[(b,) n]", "mean(x, axis=-1)", mean_of_features(x));
    const T centered = x - spread(mean, d_model);

    // Stretch it to variance 1. Epsilon keeps a token of equal features from dividing by zero.
    const PerToken<T> variance = trace("variance[(b,) n]", "mean((x - mean[..., None]) ** 2, axis=-1)",
                                       mean_of_features(T(centered * centered)));
    const PerToken<T> deviation = xt::sqrt(variance + options.epsilon);
    const T normalized = trace(
        "normalized[(b,) n, d_model]",
        [&] { return "(x - mean[..., None]) / sqrt(variance[..., None] + " + epsilon + ")"; },
        T(centered / spread(deviation, d_model)));

    // Let the network choose another mean and variance for each feature.
    const Vector& gain = trace.input("gain[d_model]", weights.gain);
    if (!weights.bias)
        return trace("output[(b,) n, d_model]", "normalized * gain", T(normalized * gain));
    const Vector& bias = trace.input("bias[d_model]", *weights.bias);
    return trace("output[(b,) n, d_model]", "normalized * gain + bias", T(normalized * gain + bias));
}

template Matrix layer_norm(const Matrix&, const LayerNormWeights&, const LayerNormOptions&, const Trace&);
template Tensor3 layer_norm(const Tensor3&, const LayerNormWeights&, const LayerNormOptions&, const Trace&);

} // namespace attn
