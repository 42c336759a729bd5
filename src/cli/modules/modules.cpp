#include "all_modules.hpp"

namespace attn::cli {

std::vector<Module> modules()
{
    return {attention_module(),
            multi_head_attention_module(),
            feed_forward_module(),
            layer_norm_module(),
            encoder_layer_module(),
            encoder_module(),
            decoder_layer_module(),
            decoder_module(),
            transformer_module(),
            restricted_attention_module(),
            talking_heads_attention_module(),
            gpt_module(),
            gru_module(),
            lstm_module(),
            llama_module(),
            keras_attention_module(),
            rms_norm_module(),
            softmax_module(),
            activation_module(),
            gated_feed_forward_module(),
            rotary_module(),
            positions_module(),
            embedding_module()};
}

} // namespace attn::cli
