#pragma once

#include "inputs.hpp"

namespace attn {

/// @name What modules() has, one function a module
/// @throws Error         where inputs are unusable or options contradict each other
/// @throws WeightsError  where weights do not fit
/// @throws ShapeError    where inputs disagree
/// @{
void run_attention(const ModuleRun& run);
void run_multi_head_attention(const ModuleRun& run);
void run_feed_forward(const ModuleRun& run);
void run_layer_norm(const ModuleRun& run);
void run_encoder_layer(const ModuleRun& run);
void run_encoder(const ModuleRun& run);
void run_decoder_layer(const ModuleRun& run);
void run_decoder(const ModuleRun& run);
void run_transformer(const ModuleRun& run);
void run_restricted_attention(const ModuleRun& run);
void run_talking_heads_attention(const ModuleRun& run);
void run_gru(const ModuleRun& run);
void run_lstm(const ModuleRun& run);
void run_llama(const ModuleRun& run);
void run_keras_attention(const ModuleRun& run);
/// @}

} // namespace attn
