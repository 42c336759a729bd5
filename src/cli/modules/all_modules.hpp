#pragma once

#include "module.hpp"

namespace attn::cli {

/// The modules of `attn run`, in the order of its --help: a new one needs its file, which defines NAME_module(), and a line here.
#define ATTN_MODULES(MODULE)                                                                                           \
    MODULE(attention)                                                                                                  \
    MODULE(multi_head_attention)                                                                                       \
    MODULE(latent_attention)                                                                                           \
    MODULE(gated_delta_net)                                                                                            \
    MODULE(feed_forward)                                                                                               \
    MODULE(layer_norm)                                                                                                 \
    MODULE(encoder_layer)                                                                                              \
    MODULE(encoder)                                                                                                    \
    MODULE(decoder_layer)                                                                                              \
    MODULE(decoder)                                                                                                    \
    MODULE(transformer)                                                                                                \
    MODULE(restricted_attention)                                                                                       \
    MODULE(talking_heads_attention)                                                                                    \
    MODULE(differential_attention)                                                                                     \
    MODULE(gpt)                                                                                                        \
    MODULE(gru)                                                                                                        \
    MODULE(lstm)                                                                                                       \
    MODULE(model)                                                                                                      \
    MODULE(llama)                                                                                                      \
    MODULE(keras_attention)                                                                                            \
    MODULE(rms_norm)                                                                                                   \
    MODULE(softmax)                                                                                                    \
    MODULE(activation)                                                                                                 \
    MODULE(gated_feed_forward)                                                                                         \
    MODULE(experts)                                                                                                    \
    MODULE(rotary)                                                                                                     \
    MODULE(positions)                                                                                                  \
    MODULE(embedding)                                                                                                  \
    MODULE(cross_entropy)

#define ATTN_DECLARE(name) Module name##_module();
ATTN_MODULES(ATTN_DECLARE)
#undef ATTN_DECLARE

} // namespace attn::cli
