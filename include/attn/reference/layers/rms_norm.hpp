#pragma once

#include "attn/core/tensor.hpp"
#include "attn/core/trace.hpp"

namespace attn {

/// The learned parameters of root mean square normalisation; PyTorch and Hugging Face call the gain `weight`.
struct RmsNormWeights {
    Vector gain; ///< (d_model)
};

/// Options of rms_norm().
struct RmsNormOptions {
    double epsilon = 1e-5; ///< added to the mean square, inside the root
    bool adds_one = false; ///< the factor of a feature is 1 + gain, as in Gemma, whose gains begin at 0
};

/// Root mean square normalisation: each token by itself gets a mean square of 1, then a gain for each feature.
///
/// Unlike layer normalisation, it does not subtract the mean and has no bias.
///
/// @param x        ((b,) n, d_model)
/// @param weights  gain
/// @param options  epsilon
/// @param trace    | step        | shape             | formula                                  |
///                 |-------------|-------------------|------------------------------------------|
///                 | x           | ((b,) n, d_model) |                                          |
///                 | mean_square | ((b,) n)          | mean(x ** 2, axis=-1)                    |
///                 | normalized  | ((b,) n, d_model) | x / sqrt(mean_square[..., None] + 1e-05) |
///                 | gain        | (d_model,)        |                                          |
///                 | output      | ((b,) n, d_model) | normalized * gain                        |
/// @return ((b,) n, d_model)
/// @throws ShapeError where x and gain disagree in d_model
/// @see Zhang and Sennrich 2019
template <Sequence T>
T rms_norm(const T& x, const RmsNormWeights& weights, const RmsNormOptions& options = {}, const Trace& trace = {});

/// The same without a gain: `output` is `x / sqrt(mean_square[..., None] + 1e-05)`.
template <Sequence T>
T rms_norm(const T& x, double epsilon, const Trace& trace = {});
ATTN_REFUSE_OTHER_TENSORS(rms_norm);

} // namespace attn
