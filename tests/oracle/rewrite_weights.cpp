// Reads the weights of a module from a file and writes them to another, as attn has them.
//
//     rewrite_weights MODULE INPUT OUTPUT D_MODEL D_MEMORY D_VALUE [PREFIX]

#include "attn/files/weights/gpt.hpp"
#include "attn/files/weights/llama.hpp"
#include "attn/files/weights/recurrent.hpp"
#include "attn/files/weights/state_dict.hpp"
#include "attn/files/weights/transformer.hpp"

#include <cstdio>
#include <map>
#include <span>
#include <string>

namespace {

using namespace attn;
using namespace attn::files;

template <class Weights>
NamedArrays reloaded(const NamedArrays& weights, const AxisSizes& sizes)
{
    return state_dict(load_weights<Weights>(weights, sizes));
}

NamedArrays rewritten(const std::string& module, const NamedArrays& weights, const AxisSizes& sizes)
{
    const std::map<std::string, NamedArrays (*)(const NamedArrays&, const AxisSizes&)> modules{
        {"multi-head-attention", reloaded<MultiHeadWeights>},
        {"feed-forward", reloaded<FeedForwardWeights>},
        {"layer-norm", reloaded<LayerNormWeights>},
        {"encoder-layer", reloaded<EncoderLayerWeights>},
        {"encoder", reloaded<EncoderWeights>},
        {"decoder-layer", reloaded<DecoderLayerWeights>},
        {"decoder", reloaded<DecoderWeights>},
        {"transformer", reloaded<TransformerWeights>},
        {"gpt", reloaded<GptWeights>},
        {"experts", reloaded<ExpertsWeights>},
    };
    if (const auto found = modules.find(module); found != modules.end())
        return found->second(weights, sizes);
    if (module == "gru")
        return state_dict(gru_weights(weights, sizes.at("d_model")));
    if (module == "lstm")
        return state_dict(lstm_weights(weights, sizes.at("d_model")));
    if (module == "llama")
        return state_dict(llama_weights(weights).weights);
    throw Error("there is no module " + module);
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
        const AxisSizes sizes{{"d_model", std::stoul(arguments[4])},
                              {"d_memory", std::stoul(arguments[5])},
                              {"d_value", std::stoul(arguments[6])}};
        const std::string prefix = arguments.size() == 8 ? arguments[7] : "";
        write_weights(arguments[3], rewritten(arguments[1], read_weights(arguments[2], prefix), sizes));
    } catch (const std::exception& error) {
        std::fprintf(stderr, "rewrite_weights: %s\n", error.what());
        return 1;
    }
    return 0;
}
