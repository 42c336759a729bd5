#pragma once

#include "attn/reference/layers/encoder.hpp"

/// One pre-norm encoder layer, by layer_norm(), multi_head_attention() and
/// feed_forward(): y = x + attention(norm1(x)), then y + feed_forward(norm2(y)).
/// @param x        (n, d_model)
/// @param weights  of both blocks and both norms
/// @param heads    the number of heads
/// @return (n, d_model)
attn::Matrix my_pre_norm_layer(const attn::Matrix& x,
                               const attn::EncoderLayerWeights& weights,
                               std::size_t heads);
