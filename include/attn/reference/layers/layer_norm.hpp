#pragma once

#include "attn/core/tensor.hpp"
#include "attn/core/trace.hpp"

#include <optional>

namespace attn {

/// The learned parameters of layer normalisation; PyTorch calls the gain `weight`.
struct LayerNormWeights {
    Vector gain;                     ///< (d_model)
    std::optional<Vector> bias = {}; ///< (d_model)
};

/// Options of layer_norm().
struct LayerNormOptions {
    double epsilon = 1e-5; ///< added to the variance, inside the root, as PyTorch does
};

/// Layer normalisation: each token by itself gets mean 0 and variance 1, then a gain and a bias for each feature.
///
/// The variance is divided by d_model (biased), not by d_model - 1 (Bessel's), as in the paper and in PyTorch.
///
/// @param x        ((b,) n, d_model)
/// @param weights  gain and bias
/// @param options  epsilon
/// @param trace    | step       | shape             | formula                                             |
///                 |------------|-------------------|-----------------------------------------------------|
///                 | x          | ((b,) n, d_model) |                                                     |
///                 | mean       | ((b,) n)          | mean(x, axis=-1)                                    |
///                 | variance   | ((b,) n)          | mean((x - mean[..., None]) ** 2, axis=-1)           |
///                 | normalized | ((b,) n, d_model) | (x - mean[..., None]) / sqrt(variance[..., None] + 1e-05) |
///                 | gain       | (d_model,)        |                                                     |
///                 | bias       | (d_model,)        |                                                     |
///                 | output     | ((b,) n, d_model) | normalized * gain + bias                            |
/// @return ((b,) n, d_model)
/// @throws ShapeError where x, gain and bias disagree in d_model
/// @see Ba, Kiros and Hinton 2016
template <Sequence T>
T layer_norm(const T& x, const LayerNormWeights& weights, const LayerNormOptions& options = {},
             const Trace& trace = {});
ATTN_REFUSE_OTHER_TENSORS(layer_norm);

} // namespace attn
