#pragma once

#include "attn/reference/layers/feed_forward.hpp"
#include "attn/reference/layers/layer_norm.hpp"
#include "attn/reference/layers/multi_head.hpp"

#include <vector>

namespace attn {

/// The learned parameters of one encoder layer.
struct EncoderLayerWeights {
    MultiHeadWeights self_attention;
    FeedForwardWeights feed_forward;
    LayerNormWeights norm1; ///< of the attention block
    LayerNormWeights norm2; ///< of the feed-forward block
};

/// Where a block's layer norm stands.
enum class NormPlacement {
    post, ///< norm(x + block(x)): Vaswani et al. 2017, and PyTorch's default, `norm_first=False`
    pre   ///< x + block(norm(x)): the residual path is never normalised, and deep stacks train more easily
};

/// Its name as a trace has it: "post", "pre".
std::string_view name_of(NormPlacement placement);

/// Options of encoder and decoder layers, of stacks of them, and of a whole Transformer.
struct EncoderOptions {
    MultiHeadOptions attention = {}; ///< of self-attention: heads; mask and bias; causal or not; scale; positions
    FeedForwardOptions feed_forward = {};
    LayerNormOptions norm = {}; ///< of the layers
    NormPlacement placement = NormPlacement::post;
    std::optional<LayerNormOptions> final_norm = {}; ///< of the norm after a stack; that of the layers unless given
};

/// One encoder layer: self-attention, then a feed-forward network, each with a residual connection and a layer norm.
///
/// Attention moves information between tokens, the feed-forward network works on each by itself. What a block computes
/// is added to its input.
///
/// @param x        ((b,) n, d_model)
/// @param weights  of attention, feed-forward network and both norms
/// @param options  of attention: heads, mask, causal or not, positions; activation, epsilon, where the norms stand
/// @param trace    in the scopes self_attn, norm1, feed_forward and norm2, the steps of multi_head_attention(), layer_norm()
///                 and feed_forward(), and in its own, with the norms after the blocks:
///
///                 | step           | shape             | formula                            |
///                 |----------------|-------------------|------------------------------------|
///                 | x              | ((b,) n, d_model) |                                    |
///                 | self_attn.x    | ((b,) n, d_model) | = x                                |
///                 | residual1      | ((b,) n, d_model) | x + self_attn.output               |
///                 | norm1.x        | ((b,) n, d_model) | = residual1                        |
///                 | feed_forward.x | ((b,) n, d_model) | = norm1.output                     |
///                 | residual2      | ((b,) n, d_model) | norm1.output + feed_forward.output |
///                 | norm2.x        | ((b,) n, d_model) | = residual2                        |
///                 | output         | ((b,) n, d_model) | = norm2.output                     |
///
///                 where = names a step again. Mask and `bias` follow `x`. With the norms before the blocks `norm1.x` is `x`,
///                 `self_attn.x` is `norm1.output`, `residual1` is `x + self_attn.output`, `norm2.x` is `residual1`,
///                 `feed_forward.x` is `norm2.output`, and `output` is `residual1 + feed_forward.output`.
///
/// The attention weights of its heads are not returned. They are steps of the trace, ((b,) n, n) each:
///
///     Recorder recorder;
///     const Matrix output = encoder_layer(x, weights, options, Trace(recorder));
///     const Matrix of_head = from_array<Matrix>(recorder.recording().at("self_attn.head.1.weights").value);
///
/// @return ((b,) n, d_model)
/// @throws ShapeError where x, the weights and the mask disagree
/// @see Vaswani et al. 2017, section 3.1; Xiong et al. 2020 for both placements; document 003 of docs/sources.md
template <Sequence T>
T encoder_layer(const T& x, const EncoderLayerWeights& weights, const EncoderOptions& options = {},
                const Trace& trace = {});
ATTN_REFUSE_OTHER_TENSORS(encoder_layer);

/// The learned parameters of an encoder.
struct EncoderWeights {
    std::vector<EncoderLayerWeights> layers;
    std::optional<LayerNormWeights> norm = {}; ///< after the last layer; a stack of pre-norm layers needs one
};

/// An encoder: layers on top of each other.
///
/// @param x        ((b,) n, d_model): embedded tokens, positions added
/// @param weights  of each layer, and of the norm at the end where there is one
/// @param options  the same for each layer
/// @param trace    in the scopes layers.0, layers.1, … the steps of encoder_layer(), in norm those of layer_norm(), and
///
///                 | step       | shape             | formula           |
///                 |------------|-------------------|-------------------|
///                 | x          | ((b,) n, d_model) |                   |
///                 | layers.0.x | ((b,) n, d_model) | = x               |
///                 | layers.1.x | ((b,) n, d_model) | = layers.0.output |
///                 | output     | ((b,) n, d_model) | = layers.1.output |
///
///                 and with a norm at the end `norm.x`, which is `layers.1.output`, and `output`, which is `norm.output`.
///                 Mask and `bias` follow `x`.
/// @return ((b,) n, d_model)
/// @throws ShapeError where x, the weights and the mask disagree
/// @see Vaswani et al. 2017, section 3.1; document 003 of docs/sources.md
template <Sequence T>
T encoder(const T& x, const EncoderWeights& weights, const EncoderOptions& options = {}, const Trace& trace = {});
ATTN_REFUSE_OTHER_TENSORS(encoder);

} // namespace attn
