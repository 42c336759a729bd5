#pragma once

#include "attn/reference/layers/activation_kind.hpp"
#include "attn/reference/layers/linear.hpp"

#include <optional>

namespace attn {

/// The learned parameters of a gated feed-forward network; Hugging Face calls the maps gate_proj, up_proj, down_proj.
struct GatedFeedForwardWeights {
    LinearWeights gate; ///< (d_model, d_ff)
    LinearWeights up;   ///< (d_model, d_ff)
    LinearWeights down; ///< (d_ff, d_model)
};

/// Options of gated_feed_forward(). gpt-oss has `{.activation = Activation::quick_gelu, .limit = 7, .up_shift = 1}`.
struct GatedFeedForwardOptions {
    Activation activation = default_gate_activation; ///< silu; with gelu the network is called GEGLU
    std::optional<double> limit = {};                ///< gates are at most this, and up stays between -limit and limit
    double up_shift = 0;                             ///< added to up, so that a hidden unit is its gate where up is 0
};

/// The gated feed-forward network SwiGLU: (silu(x W_gate) * (x W_up)) W_down. Each hidden unit is the product of two
/// maps of the token, one of which, the gate, goes through silu.
///
/// silu(gate), also called swish, is `gate * sigmoid(gate)`: nearly the gate itself where it is large, nearly zero
/// where it is well below zero, and smooth between.
///
/// @param x        ((b,) n, d_model)
/// @param weights  three linear maps
/// @param options  activation of the gate; limit of gate and up; shift of up
/// @param trace    | step         | shape             | formula                  |
///                 |--------------|-------------------|--------------------------|
///                 | x            | ((b,) n, d_model) |                          |
///                 | gate_weights | (d_model, d_ff)   |                          |
///                 | gate         | ((b,) n, d_ff)    | x @ gate_weights         |
///                 | activated    | ((b,) n, d_ff)    | gate * sigmoid(gate)     |
///                 | up_weights   | (d_model, d_ff)   |                          |
///                 | up           | ((b,) n, d_ff)    | x @ up_weights           |
///                 | gated        | ((b,) n, d_ff)    | activated * up           |
///                 | down_weights | (d_ff, d_model)   |                          |
///                 | output       | ((b,) n, d_model) | gated @ down_weights     |
///
///                 and with biases `gate_bias`, `up_bias` and `down_bias`, added as in linear(); with another activation,
///                 `activated` is as activate() says; with a limit, `limited_gate`, which is
///                 `where(gate > LIMIT, LIMIT, gate)`, and `limited_up`, which is
///                 `where(up > LIMIT, LIMIT, where(up < -LIMIT, -LIMIT, up))`, take the place of gate and up; with a
///                 shift, `gated` is `activated * (up + SHIFT)`
/// @return ((b,) n, d_model)
/// @throws ShapeError where x and the weights disagree in d_model or d_ff
/// @throws Error      where the limit is not above 0
/// @see Shazeer 2020, "GLU Variants Improve Transformer"; OpenAI 2025, "gpt-oss-120b & gpt-oss-20b Model Card", for
///      limit and shift
template <Sequence T>
T gated_feed_forward(const T& x, const GatedFeedForwardWeights& weights, const GatedFeedForwardOptions& options = {},
                     const Trace& trace = {});
ATTN_REFUSE_OTHER_TENSORS(gated_feed_forward);

} // namespace attn
