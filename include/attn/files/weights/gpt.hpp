#pragma once

#include "attn/files/npz.hpp"
#include "attn/files/weights/visit.hpp"
#include "attn/reference/models/gpt.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace attn::files {

/// token_embedding.weight, position_embedding.weight, those of each layer after layers.0, layers.1, …, of norm, and
/// lm_head.weight where the output is not tied
void visit(Either<GptWeights> auto& w, const std::string& prefix, auto&& f)
{
    auto& [token_embedding, position_embedding, layers, norm, output] = w;
    f(WeightTensor{prefix + "token_embedding.weight", {"vocabulary", "d_model"}}, token_embedding);
    f(WeightTensor{prefix + "position_embedding.weight", {"n_max", "d_model"}}, position_embedding);
    visit_layers(layers, prefix + "layers.", f,
                 [&](auto& layer, const std::string& of_layer) { visit(layer, of_layer, f); });
    visit(norm, prefix + "norm.", f);
    const std::string output_name = prefix + "lm_head.weight";
    if (begin_part(f, output, output_name))
        f(WeightTensor{output_name, {"vocabulary", "d_model"}, true}, *output);
}
template <>
inline constexpr std::string_view module_name<GptWeights> = "a decoder like GPT-2";

/// A decoder like GPT-2, and the activation that its names stand for.
struct GptCheckpoint {
    GptWeights weights;
    std::optional<Activation> activation =
        {}; ///< gelu-tanh under GPT-2's names, gelu under nanoGPT's; empty under others
};

/// Under the names of PyTorch's modules (see GptWeights), of Hugging Face's GPT-2, or of nanoGPT. An output map that
/// equals the embedding is tied.
/// @throws WeightsError  as load_weights()
GptCheckpoint gpt_weights(const NamedArrays& arrays);

} // namespace attn::files
