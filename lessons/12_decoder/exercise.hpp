#pragma once

#include "attn/reference/layers/decoder.hpp"

/// One post-norm decoder layer, by multi_head_attention(), feed_forward() and
/// layer_norm(): y = norm1(x + causal_attention(x)), z = norm2(y + attention(y, memory)),
/// then norm3(z + feed_forward(z)).
/// @param x        (n, d_model): the target so far
/// @param memory   (m, d_model): the output of the encoder
/// @param weights  of all three blocks and norms
/// @param heads    the number of heads
/// @return (n, d_model)
attn::Matrix my_decoder_layer(const attn::Matrix& x, const attn::Matrix& memory,
                              const attn::DecoderLayerWeights& weights,
                              std::size_t heads);
