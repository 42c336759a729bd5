#pragma once

#include "attn/layers/encoder.hpp"

namespace attn {

/// The learned parameters of one decoder layer.
struct DecoderLayerWeights {
    MultiHeadWeights self_attention;
    MultiHeadWeights cross_attention; ///< keys and values are made of the memory; PyTorch's `multihead_attn`
    FeedForwardWeights feed_forward;
    LayerNormWeights norm1; ///< of the self-attention block
    LayerNormWeights norm2; ///< of the cross-attention block
    LayerNormWeights norm3; ///< of the feed-forward block
};

/// What decoder_layer() and decoder() may be told.
struct DecoderOptions {
    /// Of self-attention: heads, mask (n, n) or (b, n, n), positions. Nothing is hidden unless the mask says so: give
    /// causal_mask() where tokens must not see later ones. Cross-attention has as many heads and the same scale, and
    /// neither bias nor positions: places of two sequences are no distance apart.
    MultiHeadOptions attention = {};
    std::optional<AnyMask> memory_mask = {}; ///< (n, m) or (b, n, m), true where a token may look at the memory's
    FeedForwardOptions feed_forward = {};
    LayerNormOptions norm = {}; ///< of the layers
    NormPlacement placement = NormPlacement::post;
    std::optional<LayerNormOptions> final_norm = {}; ///< of the norm behind a stack; that of the layers unless given
};

/// One decoder layer: self-attention, cross-attention onto what the encoder gave, then a feed-forward network, each with
/// a residual connection and a layer norm.
///
/// Tokens look at each other, under a causal mask at earlier ones only; then they ask the memory: queries are theirs, keys
/// and values are the memory's.
///
/// @param x        ((b,) n, d_model): the target's tokens
/// @param memory   ((b,) m, d_memory): what the encoder gave
/// @param weights  of both attentions, feed-forward network and three norms
/// @param options  heads, masks, activation, epsilon, where the norms stand
/// @param trace    in the scopes self_attn, norm1, cross_attn, norm2, feed_forward and norm3, the steps of
///                 multi_head_attention(), layer_norm() and feed_forward(), and in its own, norms behind:
///
///                 | step              | shape              | formula                            |
///                 |-------------------|--------------------|------------------------------------|
///                 | x                 | ((b,) n, d_model)  |                                    |
///                 | memory            | ((b,) m, d_memory) |                                    |
///                 | self_attn.x       | ((b,) n, d_model)  | x                                  |
///                 | residual1         | ((b,) n, d_model)  | x + self_attn.output               |
///                 | norm1.x           | ((b,) n, d_model)  | residual1                          |
///                 | cross_attn.x      | ((b,) n, d_model)  | norm1.output                       |
///                 | cross_attn.memory | ((b,) m, d_memory) | memory                             |
///                 | residual2         | ((b,) n, d_model)  | norm1.output + cross_attn.output   |
///                 | norm2.x           | ((b,) n, d_model)  | residual2                          |
///                 | feed_forward.x    | ((b,) n, d_model)  | norm2.output                       |
///                 | residual3         | ((b,) n, d_model)  | norm2.output + feed_forward.output |
///                 | norm3.x           | ((b,) n, d_model)  | residual3                          |
///                 | output            | ((b,) n, d_model)  | norm3.output                       |
///
///                 and with the norms in front: `norm1.x` is `x`, `self_attn.x` is `norm1.output`, `residual1` is
///                 `x + self_attn.output`, `norm2.x` is `residual1`, `cross_attn.x` is `norm2.output`, `residual2` is
///                 `residual1 + cross_attn.output`, `norm3.x` is `residual2`, `feed_forward.x` is `norm3.output`, and
///                 `output` is `residual2 + feed_forward.output`.
///
///                 The inputs `mask` and `memory_mask` follow the memory where they are given, and `cross_attn.mask` is
///                 `memory_mask`. A memory or mask that a scope around has named is not named again.
/// @return ((b,) n, d_model)
/// @throws ShapeError where x, memory, the weights and the masks disagree
/// @see Vaswani et al. 2017, section 3.1; seed document 003
Matrix decoder_layer(const Matrix& x, const Matrix& memory, const DecoderLayerWeights& weights,
                     const DecoderOptions& options = {}, const Trace& trace = {});
/// The same for a batch.
Tensor3 decoder_layer(const Tensor3& x, const Tensor3& memory, const DecoderLayerWeights& weights,
                      const DecoderOptions& options = {}, const Trace& trace = {});

/// The learned parameters of a decoder.
struct DecoderWeights {
    std::vector<DecoderLayerWeights> layers;
    std::optional<LayerNormWeights> norm = {}; ///< after the last layer; a stack of pre-norm layers needs one
};

/// A decoder: layers on top of each other, each of which looks at the same memory.
///
/// @param x        ((b,) n, d_model): embedded tokens, positions added
/// @param memory   ((b,) m, d_memory): what the encoder's last layer gave
/// @param weights  of each layer, and of the norm at the end where there is one
/// @param options  the same for each layer
/// @param trace    in the scopes layers.0, layers.1, … the steps of decoder_layer(), in norm those of layer_norm(), and
///
///                 | step       | shape              | formula         |
///                 |------------|--------------------|-----------------|
///                 | x          | ((b,) n, d_model)  |                 |
///                 | memory     | ((b,) m, d_memory) |                 |
///                 | layers.0.x | ((b,) n, d_model)  | x               |
///                 | layers.1.x | ((b,) n, d_model)  | layers.0.output |
///                 | output     | ((b,) n, d_model)  | layers.1.output |
///
///                 and with a norm at the end `norm.x`, which is `layers.1.output`, and `output`, which is `norm.output`
/// @return ((b,) n, d_model)
/// @throws ShapeError where x, memory, the weights and the masks disagree
/// @see Vaswani et al. 2017, section 3.1; seed document 003
Matrix decoder(const Matrix& x, const Matrix& memory, const DecoderWeights& weights, const DecoderOptions& options = {},
               const Trace& trace = {});
/// The same for a batch.
Tensor3 decoder(const Tensor3& x, const Tensor3& memory, const DecoderWeights& weights,
                const DecoderOptions& options = {}, const Trace& trace = {});

} // namespace attn
