#pragma once

#include "attn/reference/layers/encoder.hpp"

namespace attn {

/// The learned parameters of one decoder layer.
struct DecoderLayerWeights {
    MultiHeadWeights self_attention;
    MultiHeadWeights cross_attention; ///< keys and values come from the memory; PyTorch's `multihead_attn`
    FeedForwardWeights feed_forward;
    LayerNormWeights norm1; ///< of the self-attention block
    LayerNormWeights norm2; ///< of the cross-attention block
    LayerNormWeights norm3; ///< of the feed-forward block
};

/// Options of decoder layers and of stacks of them.
///
/// Cross-attention has as many heads as self-attention and the same scale, but no positions: there is no distance
/// between a position in one sequence and a position in another.
struct DecoderOptions {
    MultiHeadOptions attention = {}; ///< of self-attention: heads; mask and bias; causal or not; scale; positions
    OptionalMask memory_mask =
        {}; ///< (n, m), (b, n, m) or (b, h, n, m), true where a token can attend to one of the memory
    OptionalBias memory_bias = {}; ///< the same shapes, added to the scaled scores of cross-attention
    FeedForwardOptions feed_forward = {};
    LayerNormOptions norm = {}; ///< of the layers
    NormPlacement placement = NormPlacement::post;
    std::optional<LayerNormOptions> final_norm = {}; ///< of the norm after a stack; that of the layers unless given
};

/// One decoder layer: self-attention, cross-attention to the encoder's output, then a feed-forward network, each with a
/// residual connection and a layer norm.
///
/// Tokens attend to each other, with a causal mask only to themselves and earlier ones. Then they attend to the memory:
/// queries are computed from the tokens, keys and values from the memory.
///
/// @param x            ((b,) n, d_model): the target's tokens
/// @param memory       ((b,) m, d_memory): the encoder's output
/// @param weights      of both attentions, feed-forward network and three norms
/// @param options      of self-attention: heads, mask, causal or not, positions; mask of the memory; activation, epsilon,
///                     where the norms stand
/// @param trace        in the scopes self_attn, norm1, cross_attn, norm2, feed_forward and norm3, the steps of
///                     multi_head_attention(), layer_norm() and feed_forward(), and in its own, with
///                     the norms after the blocks:
///
///                     | step              | shape              | formula                            |
///                     |-------------------|--------------------|------------------------------------|
///                     | x                 | ((b,) n, d_model)  |                                    |
///                     | memory            | ((b,) m, d_memory) |                                    |
///                     | self_attn.x       | ((b,) n, d_model)  | = x                                |
///                     | residual1         | ((b,) n, d_model)  | x + self_attn.output               |
///                     | norm1.x           | ((b,) n, d_model)  | = residual1                        |
///                     | cross_attn.x      | ((b,) n, d_model)  | = norm1.output                     |
///                     | cross_attn.memory | ((b,) m, d_memory) | = memory                           |
///                     | residual2         | ((b,) n, d_model)  | norm1.output + cross_attn.output   |
///                     | norm2.x           | ((b,) n, d_model)  | = residual2                        |
///                     | feed_forward.x    | ((b,) n, d_model)  | = norm2.output                     |
///                     | residual3         | ((b,) n, d_model)  | norm2.output + feed_forward.output |
///                     | norm3.x           | ((b,) n, d_model)  | = residual3                        |
///                     | output            | ((b,) n, d_model)  | = norm3.output                     |
///
///                     where = names a step again, and with the norms before the blocks: `norm1.x` is `x`,
///                     `self_attn.x` is `norm1.output`, `residual1` is `x + self_attn.output`, `norm2.x` is `residual1`,
///                     `cross_attn.x` is `norm2.output`, `residual2` is `residual1 + cross_attn.output`, `norm3.x` is
///                     `residual2`, `feed_forward.x` is `norm3.output`, and `output` is
///                     `residual2 + feed_forward.output`.
///
///                     `mask` (see join_masks()), `bias`, `memory_mask` and `memory_bias` follow the memory where there
///                     are any, and `cross_attn.mask` is `memory_mask`, `cross_attn.bias` is `memory_bias`. A memory,
///                     mask or bias that a scope around has named is not named again.
/// @return ((b,) n, d_model)
/// @throws ShapeError where x, memory, the weights and the masks disagree
/// @see Vaswani et al. 2017, section 3.1; document 003 of docs/sources.md
template <Sequence T>
T decoder_layer(const T& x, const T& memory, const DecoderLayerWeights& weights, const DecoderOptions& options = {},
                const Trace& trace = {});
ATTN_REFUSE_OTHER_TENSORS(decoder_layer);

/// The learned parameters of a decoder.
struct DecoderWeights {
    std::vector<DecoderLayerWeights> layers;
    std::optional<LayerNormWeights> norm = {}; ///< after the last layer; a stack of pre-norm layers needs one
};

/// A decoder: layers on top of each other, all of which attend to the same memory.
///
/// @param x            ((b,) n, d_model): embedded tokens, positions added
/// @param memory       ((b,) m, d_memory): the output of the encoder's last layer
/// @param weights      of each layer, and of the norm at the end where there is one
/// @param options      the same for each layer
/// @param trace        in the scopes layers.0, layers.1, … the steps of decoder_layer(), in norm those of layer_norm(),
///                     and
///
///                     | step       | shape              | formula           |
///                     |------------|--------------------|-------------------|
///                     | x          | ((b,) n, d_model)  |                   |
///                     | memory     | ((b,) m, d_memory) |                   |
///                     | layers.0.x | ((b,) n, d_model)  | = x               |
///                     | layers.1.x | ((b,) n, d_model)  | = layers.0.output |
///                     | output     | ((b,) n, d_model)  | = layers.1.output |
///
///                     and with a norm at the end `norm.x`, which is `layers.1.output`, and `output`, which is
///                     `norm.output`
/// @return ((b,) n, d_model)
/// @throws ShapeError where x, memory, the weights and the masks disagree
/// @see Vaswani et al. 2017, section 3.1; document 003 of docs/sources.md
template <Sequence T>
T decoder(const T& x, const T& memory, const DecoderWeights& weights, const DecoderOptions& options = {},
          const Trace& trace = {});
ATTN_REFUSE_OTHER_TENSORS(decoder);

} // namespace attn
