#pragma once

#include "attn/layers/encoder.hpp"

/// One encoder layer with its norms in front of the blocks, of the library's own parts: layer_norm(),
/// multi_head_attention() and feed_forward().
/// @param x        (n, d_model)
/// @param weights  of both blocks and both norms
/// @param heads    how many
/// @return (n, d_model)
attn::Matrix my_pre_norm_layer(const attn::Matrix& x,
                               const attn::EncoderLayerWeights& weights,
                               std::size_t heads);
