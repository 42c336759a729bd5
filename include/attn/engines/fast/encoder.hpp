#pragma once

#include "attn/engines/fast/attention.hpp"
#include "attn/engines/fast/tokens.hpp"
#include "attn/engines/fast/weights.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace attn::fast {

/// The weights of an encoder layer in float32, in the order in which the kernels read them. They are made once.
struct PackedEncoderLayer {
    /// @throws Error where attention has no output map, or norms of queries or keys
    explicit PackedEncoderLayer(const EncoderLayerWeights& weights);

    AttentionMaps self_attention;
    FeedForwardMaps feed_forward;
    Norm norm1, norm2;
};

/// Those of an encoder.
struct PackedEncoder {
    /// @throws Error where attention has no output map, or norms of queries or keys
    explicit PackedEncoder(const EncoderWeights& weights);

    std::vector<PackedEncoderLayer> layers;
    std::optional<Norm> norm;
};

/// Whether there is a kernel of an activation. Layers with another one are refused.
bool computes(Activation activation);

/// Which keys tokens can attend to, besides what the options say.
struct Masking {
    PerScore<bool> mask = {};                       ///< (b, h, n, m), true where a query can attend; optional
    std::span<const std::int64_t> key_lengths = {}; ///< (b): how many keys of each sequence are real; optional
};

/// encoder_layer() in float32, for speed: self-attention, then a feed-forward network, each with a residual connection and
/// a norm.
///
/// The products of a row do not depend on other rows, so that the numbers are the same with any number of threads, and the
/// same for a sequence by itself and in a batch.
///
/// @param x          ((b,) n, d_model)
/// @param masking    mask and lengths; optional
/// @param weights    of attention, feed-forward network and both norms
/// @param options    as of encoder_layer()
/// @param output     ((b,) n, d_model), is written; it can be x
/// @param workspace  reused from call to call
/// @param trace      the steps of encoder_layer(), whose numbers are those of the kernels, in float32; their module says so.
///                   A norm is the one step `output`. In self_attn those of attention() stand in the scope `attention`.
///                   With rotary positions there are `cosines` and `sines`, and in self_attn `rotated_query` and
///                   `rotated_key`.
/// @throws ShapeError where x, the weights, the masks and the output disagree, or heads do not divide their columns
/// @throws Error      where a pointer to numbers is null, or there is no kernel of the activation
void encoder_layer(const Tokens<const float>& x, const Masking& masking, const PackedEncoderLayer& weights,
                   const EncoderOptions& options, const Tokens<float>& output, Workspace& workspace,
                   const Trace& trace = {});

/// encoder() in float32: layers on top of each other, and the norm after them where there is one.
///
/// @param x          ((b,) n, d_model): embedded tokens, positions added
/// @param masking    mask and lengths, the same in each layer; optional
/// @param weights    of each layer, and of the norm at the end where there is one
/// @param options    the same for each layer
/// @param output     ((b,) n, d_model), is written; it can be x
/// @param workspace  reused from call to call
/// @param trace      in the scopes layers.0, layers.1, … the steps of encoder_layer(), in norm those of a norm
/// @throws ShapeError, Error  as encoder_layer()
void encoder(const Tokens<const float>& x, const Masking& masking, const PackedEncoder& weights,
             const EncoderOptions& options, const Tokens<float>& output, Workspace& workspace, const Trace& trace = {});

} // namespace attn::fast
