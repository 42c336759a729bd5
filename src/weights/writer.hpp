#pragma once

#include "attn/layers/encoder.hpp"
#include "attn/trace_io/npz.hpp"

#include <optional>
#include <string>

namespace attn {

/// @name Parts that several modules have, put among their tensors
/// @param prefix  in front of the part's names: "self_attn."
/// @{
void put_weight(NamedArrays& arrays, const std::string& name, const Matrix& weight);
void put_bias(NamedArrays& arrays, const std::string& name, const std::optional<Vector>& bias);
void put_linear(NamedArrays& arrays, const std::string& name, const LinearWeights& weights);
void put_multi_head(NamedArrays& arrays, const std::string& prefix, const MultiHeadWeights& weights);
void put_feed_forward(NamedArrays& arrays, const std::string& prefix, const FeedForwardWeights& weights);
void put_layer_norm(NamedArrays& arrays, const std::string& prefix, const LayerNormWeights& weights);
void put_encoder_layer(NamedArrays& arrays, const std::string& prefix, const EncoderLayerWeights& weights);
void put_encoder(NamedArrays& arrays, const std::string& prefix, const EncoderWeights& weights);
/// @}

} // namespace attn
