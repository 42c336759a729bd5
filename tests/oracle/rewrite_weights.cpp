// Reads the weights of a module from a file and writes them to another, as attn has them.
//
//     rewrite_weights MODULE INPUT OUTPUT D_MODEL D_MEMORY D_VALUE [PREFIX]

#include "attn/weights/state_dict.hpp"

#include <cstdio>
#include <span>
#include <string>

namespace {

attn::NamedArrays rewritten(const std::string& module, const attn::NamedArrays& weights,
                            const attn::AttentionSizes& sizes)
{
    if (module == "multi-head-attention")
        return attn::state_dict(attn::multi_head_weights(weights, sizes));
    if (module == "feed-forward")
        return attn::state_dict(attn::feed_forward_weights(weights, sizes.d_model));
    if (module == "layer-norm")
        return attn::state_dict(attn::layer_norm_weights(weights, sizes.d_model));
    if (module == "encoder-layer")
        return attn::state_dict(attn::encoder_layer_weights(weights, sizes.d_model));
    if (module == "encoder")
        return attn::state_dict(attn::encoder_weights(weights, sizes.d_model));
    if (module == "decoder-layer")
        return attn::state_dict(attn::decoder_layer_weights(weights, sizes.d_model));
    if (module == "decoder")
        return attn::state_dict(attn::decoder_weights(weights, sizes.d_model));
    if (module == "transformer")
        return attn::state_dict(attn::transformer_weights(weights, sizes.d_model));
    if (module == "gru")
        return attn::state_dict(attn::gru_weights(weights, sizes.d_model));
    if (module == "lstm")
        return attn::state_dict(attn::lstm_weights(weights, sizes.d_model));
    if (module == "llama")
        return attn::state_dict(attn::llama_weights(weights).weights);
    throw attn::Error("there is no module " + module);
}

} // namespace

int main(int argc, char** argv)
{
    const std::span arguments(argv, static_cast<std::size_t>(argc));
    if (arguments.size() != 7 && arguments.size() != 8) {
        std::fputs("rewrite_weights MODULE INPUT OUTPUT D_MODEL D_MEMORY D_VALUE [PREFIX]\n", stderr);
        return 2;
    }
    try {
        const attn::AttentionSizes sizes{.d_model = std::stoul(arguments[4]),
                                         .d_memory = std::stoul(arguments[5]),
                                         .d_value = std::stoul(arguments[6])};
        const std::string prefix = arguments.size() == 8 ? arguments[7] : "";
        attn::write_weights(arguments[3], rewritten(arguments[1], attn::read_weights(arguments[2], prefix), sizes));
    } catch (const std::exception& error) {
        std::fprintf(stderr, "rewrite_weights: %s\n", error.what());
        return 1;
    }
    return 0;
}
