#pragma once

#include "attn/layers/decoder.hpp"

/// One decoder layer, each norm after its block, no token attending to a later one, made of the library's own parts:
/// multi_head_attention(), feed_forward() and layer_norm().
/// @param x        (n, d_model): the target so far
/// @param memory   (m, d_model): the output of the encoder
/// @param weights  of all three blocks and norms
/// @param heads    how many
/// @return (n, d_model)
attn::Matrix my_decoder_layer(const attn::Matrix& x, const attn::Matrix& memory,
                              const attn::DecoderLayerWeights& weights,
                              std::size_t heads);
