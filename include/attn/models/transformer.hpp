#pragma once

#include "attn/layers/decoder.hpp"

namespace attn {

/// The learned parameters of a Transformer between embeddings and logits: PyTorch's nn.Transformer.
struct TransformerWeights {
    EncoderWeights encoder;
    DecoderWeights decoder;
};

/// What transformer() may be told.
struct TransformerOptions {
    std::size_t heads = 1;
    std::optional<AnyMask> source_mask = {}; ///< (m, m) or (b, m, m): which source token may look at which
    std::optional<AnyMask> target_mask = {}; ///< (n, n) or (b, n, n): causal where the next token is to be predicted
    std::optional<AnyMask> memory_mask =
        {}; ///< (n, m) or (b, n, m): which target token may look at which of the source
    FeedForwardOptions feed_forward = {};
    LayerNormOptions norm = {}; ///< of the layers
    NormPlacement placement = NormPlacement::post;
    std::optional<LayerNormOptions> final_norm =
        {}; ///< of the norms behind both stacks; that of the layers unless given
};

/// What of it the encoder is told.
EncoderOptions encoder_options(const TransformerOptions& options);
/// What of it the decoder is told.
DecoderOptions decoder_options(const TransformerOptions& options);

/// The whole Transformer: an encoder of the source, and a decoder of the target that asks what the encoder gave.
///
/// The encoder sees all of the source at once. The decoder's input is not the source again but the target, shifted right
/// behind a start token: row i is what is known when token i is to be predicted.
///
/// @param source   ((b,) m, d_model): embedded tokens, positions added
/// @param target   ((b,) n, d_model): embedded tokens, positions added
/// @param weights  of both stacks
/// @param options  heads, masks, activation, epsilon, where the norms stand
/// @param trace    in the scopes encoder and decoder the steps of encoder() and decoder(), and
///
///                 | step           | shape             | formula        |
///                 |----------------|-------------------|----------------|
///                 | source         | ((b,) m, d_model) |                |
///                 | target         | ((b,) n, d_model) |                |
///                 | encoder.x      | ((b,) m, d_model) | source         |
///                 | decoder.x      | ((b,) n, d_model) | target         |
///                 | decoder.memory | ((b,) m, d_model) | encoder.output |
///                 | output         | ((b,) n, d_model) | decoder.output |
///
///                 The inputs `source_mask`, `target_mask` and `memory_mask` follow the target where they are given;
///                 `encoder.mask` is `source_mask`, and `decoder.mask` is `target_mask`.
/// @return ((b,) n, d_model)
/// @throws ShapeError where source, target, the weights and the masks disagree
/// @see Vaswani et al. 2017, section 3; seed document 003
Matrix transformer(const Matrix& source, const Matrix& target, const TransformerWeights& weights,
                   const TransformerOptions& options = {}, const Trace& trace = {});
/// The same for a batch.
Tensor3 transformer(const Tensor3& source, const Tensor3& target, const TransformerWeights& weights,
                    const TransformerOptions& options = {}, const Trace& trace = {});

} // namespace attn
