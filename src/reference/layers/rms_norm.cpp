#include "attn/reference/layers/rms_norm.hpp"

#include "attn/core/shape.hpp"
#include "attn/reference/ops/terms.hpp"

namespace attn {
namespace {

/// Scales each token to a mean square of 1. Epsilon prevents a division by zero for a token of zeros.
template <Sequence T>
Term<T> scaled_to_one(const Term<T>& x, double epsilon, const Trace& trace)
{
    const Term mean_square = trace("mean_square[(b,) n]", mean_along(square(x), -1));
    return x / sqrt(column(mean_square) + epsilon);
}

} // namespace

template <Sequence T>
T rms_norm(const T& tokens, const RmsNormWeights& weights, const RmsNormOptions& options, const Trace& caller)
{
    expect_agreement("rms_norm", "d_model", {"x", tokens, feature_axis<T>}, {"gain", weights.gain, 0});
    const Trace trace = caller.module("rms_norm", [&] {
        StepOptions described{{"epsilon", exact_text(options.epsilon)}};
        if (options.adds_one)
            described.emplace_back("adds_one", "true");
        return described;
    });
    const Term x = trace.input("x[(b,) n, d_model]", Term(tokens));
    const Term normalized = trace("normalized[(b,) n, d_model]", scaled_to_one(x, options.epsilon, trace));

    // Apply the learned gain of each feature.
    const Term gain = trace.input("gain[d_model]", Term(weights.gain));
    return T(trace("output[(b,) n, d_model]", normalized * (options.adds_one ? 1 + gain : gain)));
}

template <Sequence T>
T rms_norm(const T& tokens, double epsilon, const Trace& caller)
{
    const Trace trace = caller.module("rms_norm", [&] {
        return StepOptions{{"epsilon", exact_text(epsilon)}, {"gain", "none"}};
    });
    const Term x = trace.input("x[(b,) n, d_model]", Term(tokens));
    return T(trace("output[(b,) n, d_model]", scaled_to_one(x, epsilon, trace)));
}

#define ATTN_INSTANTIATE(T)                                                                                            \
    template T rms_norm(const T&, double, const Trace&);                                                               \
    template T rms_norm(const T&, const RmsNormWeights&, const RmsNormOptions&, const Trace&);
ATTN_FOR_SEQUENCES(ATTN_INSTANTIATE)
#undef ATTN_INSTANTIATE

} // namespace attn
