#include "small_model.hpp"

#include "attn/files/file.hpp"
#include "attn/files/npz.hpp"
#include "attn/reference/models/language_model.hpp"

#include <filesystem>

namespace attn {

SmallModel small_model(Training training)
{
    SmallModel model{read_word_model("small_model"), {}, {}};
    model.options.heads = model.heads;
    model.weights = read_weights_of<GptWeights>(model, training == Training::after
                                                           ? "model.safetensors"
                                                           : "untrained.safetensors");
    return model;
}

LanguageModelWeights as_language_model(const GptWeights& gpt)
{
    LanguageModelWeights weights{gpt.token_embedding};
    weights.positions = gpt.position_embedding;
    for (const EncoderLayerWeights& layer : gpt.layers) {
        BlockWeights& block = weights.layers.emplace_back();
        block.norm1 = layer.norm1;
        block.self_attention = layer.self_attention;
        block.norm2 = layer.norm2;
        block.feed_forward = layer.feed_forward;
    }
    weights.norm = gpt.norm;
    return weights;
}

SmallStories small_stories()
{
    const std::filesystem::path file =
        std::filesystem::path(ATTN_LESSONS_FOLDER) / "small_model" / "stories.npz";
    const files::NamedArrays arrays = files::read_npz(file);
    const auto stories = [&](const char* name) {
        const auto found = arrays.find(name);
        if (found == arrays.end() || found->second.type != ElementType::integer)
            throw files::FileError(
                file, "has no whole numbers " + std::string(name) +
                          ", expected what script/regenerate-goldens stories writes");
        std::vector<std::vector<std::int64_t>> split(1);
        for (const double id : found->second.values) {
            split.back().push_back(static_cast<std::int64_t>(id));
            if (id == 0) // the end of a story
                split.emplace_back();
        }
        split.pop_back();
        return split;
    };
    return {stories("training"), stories("held_out")};
}

std::string sentence() { return "Lily had a red ball . She"; }

} // namespace attn
