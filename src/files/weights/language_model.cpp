// Which parts a decoder or encoder has, by the names in its file.

#include "attn/files/weights/language_model.hpp"

#include "attn/files/weights/loader.hpp"

namespace attn::files {

void WeightsLoader::begin_part(SelfAttentionWeights& attention, const std::string& prefix)
{
    if (has(prefix + "self_attn.kv_a_proj_with_mqa.weight"))
        attention = LatentAttentionWeights{};
    if (has(prefix + "linear_attn.A_log"))
        attention = GatedDeltaNetWeights{};
}

void WeightsLoader::begin_part(NetworkWeights& network, const std::string& prefix)
{
    begin_layer(prefix);
    if (has_any(prefix + "router."))
        network = ExpertsWeights{};
    else if (has(prefix + "gate_proj.weight"))
        network = GatedFeedForwardWeights{};
}

void WeightsLoader::begin_part(InputWeights& input, const std::string& prefix)
{
    if (!options_.has_input)
        input = std::monostate();
    else if (has(prefix + "patch_embedding.weight"))
        input = PatchWeights{};
    else if (has(prefix + "patch_map.weight"))
        input = LinearWeights{};
    else if (has_any(prefix + "convolutions.0."))
        input = std::vector<ConvolutionWeights>();
}

} // namespace attn::files
