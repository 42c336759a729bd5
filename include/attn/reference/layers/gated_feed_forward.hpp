#pragma once

#include "attn/reference/layers/activation_kind.hpp"
#include "attn/reference/layers/linear.hpp"

namespace attn {

/// The learned parameters of a gated feed-forward network; Hugging Face calls the maps gate_proj, up_proj, down_proj.
struct GatedFeedForwardWeights {
    LinearWeights gate; ///< (d_model, d_ff)
    LinearWeights up;   ///< (d_model, d_ff)
    LinearWeights down; ///< (d_ff, d_model)
};

/// Options of gated_feed_forward().
struct GatedFeedForwardOptions {
    Activation activation = default_gate_activation; ///< silu; with gelu the network is called GEGLU
};

/// The gated feed-forward network SwiGLU: (silu(x W_gate) * (x W_up)) W_down. Each hidden unit is the product of two
/// maps of the token, one of which, the gate, goes through silu.
///
/// silu(gate), also called swish, is `gate * sigmoid(gate)`: nearly the gate itself where it is large, nearly zero
/// where it is well below zero, and smooth between.
///
/// @param x        ((b,) n, d_model)
/// @param weights  three linear maps
/// @param options  activation of the gate
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
///                 `activated` is as activate() says
/// @return ((b,) n, d_model)
/// @throws ShapeError where x and the weights disagree in d_model or d_ff
/// @see Shazeer 2020, "GLU Variants Improve Transformer"
template <Sequence T>
T gated_feed_forward(const T& x, const GatedFeedForwardWeights& weights, const GatedFeedForwardOptions& options = {},
                     const Trace& trace = {});
ATTN_REFUSE_OTHER_TENSORS(gated_feed_forward);

} // namespace attn
