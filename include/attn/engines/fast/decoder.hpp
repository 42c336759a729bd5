#pragma once

#include "attn/engines/fast/encoder.hpp"
#include "attn/reference/layers/decoder.hpp"

namespace attn::fast {

/// The weights of a decoder layer in float32, in the order in which the kernels read them. They are made once.
struct PackedDecoderLayer {
    /// @throws Error where attention has no output map, or norms of queries or keys
    explicit PackedDecoderLayer(const DecoderLayerWeights& weights);

    AttentionMaps self_attention, cross_attention;
    FeedForwardMaps feed_forward;
    Norm norm1, norm2, norm3;
};

/// decoder_layer() in float32, for speed: self-attention, cross-attention to the encoder's output, then a feed-forward
/// network, each with a residual connection and a norm.
///
/// The products of a row do not depend on other rows, so that the numbers are the same with any number of threads.
///
/// @param x               ((b,) n, d_model): the target's tokens
/// @param memory          ((b,) m, d_memory): the encoder's output
/// @param masking         of self-attention; optional, see also options
/// @param memory_masking  of cross-attention; optional
/// @param weights         of both attentions, feed-forward network and three norms
/// @param options         as of decoder_layer()
/// @param output          ((b,) n, d_model), is written; it can be x
/// @param workspace       reused from call to call
/// @param trace           the steps of decoder_layer(), as encoder_layer() has them
/// @throws ShapeError where x, memory, the weights, the masks and the output disagree, or heads do not divide their columns
/// @throws Error      where a pointer to numbers is null, or there is no kernel of the activation
void decoder_layer(const Tokens<const float>& x, const Tokens<const float>& memory, const Masking& masking,
                   const Masking& memory_masking, const PackedDecoderLayer& weights, const DecoderOptions& options,
                   const Tokens<float>& output, Workspace& workspace, const Trace& trace = {});

} // namespace attn::fast
