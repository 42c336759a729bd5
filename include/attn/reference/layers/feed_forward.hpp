#pragma once

#include "attn/reference/layers/activation_kind.hpp"
#include "attn/reference/layers/linear.hpp"

namespace attn {

/// The learned parameters of a position-wise feed-forward network.
struct FeedForwardWeights {
    LinearWeights hidden; ///< (d_model, d_ff); PyTorch's `linear1`
    LinearWeights output; ///< (d_ff, d_model); PyTorch's `linear2`
};

/// Options of feed_forward().
struct FeedForwardOptions {
    Activation activation = default_activation; ///< relu
};

/// The position-wise feed-forward network: activation(x W1 + b1) W2 + b2 maps each token from d_model features to d_ff
/// hidden units and back.
///
/// The weights are the same at every position, so it is a convolution of width 1.
///
/// @param x        ((b,) n, d_model)
/// @param weights  two linear maps
/// @param options  activation
/// @param trace    | step           | shape             | formula                                   |
///                 |----------------|-------------------|-------------------------------------------|
///                 | x              | ((b,) n, d_model) |                                           |
///                 | hidden_weights | (d_model, d_ff)   |                                           |
///                 | hidden_bias    | (d_ff,)           |                                           |
///                 | hidden         | ((b,) n, d_ff)    | x @ hidden_weights + hidden_bias          |
///                 | activated      | ((b,) n, d_ff)    | relu(hidden)                              |
///                 | output_weights | (d_ff, d_model)   |                                           |
///                 | output_bias    | (d_model,)        |                                           |
///                 | output         | ((b,) n, d_model) | activated @ output_weights + output_bias  |
///
///                 with another activation, `activated` is as activate() says
/// @return ((b,) n, d_model)
/// @throws ShapeError where x and the weights disagree in d_model or d_ff
/// @see Vaswani et al. 2017, section 3.3; documents 001 and 003 of docs/sources.md
template <Sequence T>
T feed_forward(const T& x, const FeedForwardWeights& weights, const FeedForwardOptions& options = {},
               const Trace& trace = {});
ATTN_REFUSE_OTHER_TENSORS(feed_forward);

} // namespace attn
