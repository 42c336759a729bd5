#pragma once

#include "attn/reference/layers/decoder.hpp"

namespace attn {

/// The learned parameters of a Transformer between embeddings and logits: PyTorch's nn.Transformer.
struct TransformerWeights {
    EncoderWeights encoder;
    DecoderWeights decoder;
};

/// Options of transformer().
struct TransformerOptions {
    /// Of self-attention in both stacks: heads, scale, positions; mask, bias, and causal or not: of the target only.
    MultiHeadOptions attention = {};
    OptionalMask source_mask =
        {}; ///< (m, m), (b, m, m) or (b, h, m, m), true where a source token can attend to another
    OptionalBias source_bias = {}; ///< the same shapes, added to the scaled scores
    OptionalMask memory_mask = {}; ///< the same of target tokens and those of the source, with n and m
    OptionalBias memory_bias = {}; ///< the same shapes, added to the scaled scores
    FeedForwardOptions feed_forward = {};
    LayerNormOptions norm = {}; ///< of the layers
    NormPlacement placement = NormPlacement::post;
    std::optional<LayerNormOptions> final_norm = {}; ///< of the norms after the stacks; that of the layers unless given
};

/// The options of the encoder.
EncoderOptions encoder_options(const TransformerOptions& options);
/// The options of the decoder.
DecoderOptions decoder_options(const TransformerOptions& options);

/// The whole Transformer: an encoder of the source, and a decoder of the target that attends to the encoder's output.
///
/// The decoder's input is not the source again but the target, shifted right after a start token: row i is what is known
/// when token i is to be predicted.
///
/// @param source       ((b,) m, d_model): embedded tokens, positions added
/// @param target       ((b,) n, d_model): embedded tokens, positions added
/// @param weights      of both stacks
/// @param options      heads, masks and biases, causal or not, activation, epsilon, where the norms stand
/// @param trace        in the scopes encoder and decoder the steps of encoder() and decoder(), and
///
///                 | step           | shape             | formula          |
///                 |----------------|-------------------|------------------|
///                 | source         | ((b,) m, d_model) |                  |
///                 | target         | ((b,) n, d_model) |                  |
///                 | encoder.x      | ((b,) m, d_model) | = source         |
///                 | decoder.x      | ((b,) n, d_model) | = target         |
///                 | decoder.memory | ((b,) m, d_model) | = encoder.output |
///                 | output         | ((b,) n, d_model) | = decoder.output |
///
///                 The inputs `source_mask`, `target_mask` and `memory_mask` follow the target where they are given, with
///                 the steps of join_masks() for `target_mask`; `encoder.mask` is `source_mask`, `decoder.mask` is
///                 `target_mask`. So do `source_bias`, `target_bias` and `memory_bias`.
/// @return ((b,) n, d_model)
/// @throws ShapeError where source, target, the weights and the masks disagree
/// @see Vaswani et al. 2017, section 3; document 003 of docs/sources.md
template <Sequence T>
T transformer(const T& source, const T& target, const TransformerWeights& weights,
              const TransformerOptions& options = {}, const Trace& trace = {});
ATTN_REFUSE_OTHER_TENSORS(transformer);

} // namespace attn
