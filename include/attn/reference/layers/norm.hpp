#pragma once

#include "attn/reference/layers/layer_norm.hpp"
#include "attn/reference/layers/rms_norm.hpp"

#include <string_view>

namespace attn {

/// Which norm a model has.
enum class NormKind {
    layer, ///< layer_norm()
    rms    ///< rms_norm()
};

/// Its name as a trace has it: "layer", "rms".
std::string_view name_of(NormKind kind);

/// What a model's norms have in common.
struct NormDescription {
    NormKind kind = NormKind::layer;
    double epsilon = 1e-5; ///< added to the variance or to the mean square, inside the root
    bool adds_one = false; ///< the factor of a feature is 1 + gain; of RMS norms only
};

/// The norm of each token by itself that a description asks for.
///
/// @param x            ((b,) n, d_model)
/// @param weights      gain (d_model) and, of a layer norm, optionally bias (d_model)
/// @param description  which norm
/// @param trace        the steps of layer_norm() or rms_norm()
/// @return ((b,) n, d_model)
/// @throws ShapeError where x and weights disagree in d_model
/// @throws Error      where an RMS norm is given a bias, or a layer norm should add one to its gain
template <Sequence T>
T norm(const T& x, const LayerNormWeights& weights, const NormDescription& description, const Trace& trace = {});

} // namespace attn
