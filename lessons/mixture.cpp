#include "mixture.hpp"

namespace attn {

LanguageModelDescription MixtureModel::description(std::size_t top) const
{
    LanguageModelDescription model;
    model.layers.resize(balanced.layers.size());
    for (BlockDescription& layer : model.layers) {
        layer.attention.heads = heads;
        layer.experts.top = top;
    }
    return model;
}

MixtureModel mixture_model()
{
    MixtureModel model{read_word_model("mixture"), {}, {}};
    const auto read = [&](std::string_view file) {
        return read_weights_of<LanguageModelWeights>(model, file);
    };
    model.balanced = read("model.safetensors");
    model.unbalanced = read("unbalanced.safetensors");
    return model;
}

} // namespace attn
