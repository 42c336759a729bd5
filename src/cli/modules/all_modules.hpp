#pragma once

#include "module.hpp"

namespace attn::cli {

/// @name The modules, each with flags of its own; a new one needs a line here and in modules()
/// @{
Module attention_module();
Module multi_head_attention_module();
Module feed_forward_module();
Module layer_norm_module();
Module encoder_layer_module();
Module encoder_module();
Module decoder_layer_module();
Module decoder_module();
Module transformer_module();
Module restricted_attention_module();
Module talking_heads_attention_module();
Module gpt_module();
Module gru_module();
Module lstm_module();
Module llama_module();
Module keras_attention_module();
Module rms_norm_module();
Module softmax_module();
Module activation_module();
Module gated_feed_forward_module();
Module rotary_module();
Module positions_module();
Module embedding_module();
/// @}

} // namespace attn::cli
