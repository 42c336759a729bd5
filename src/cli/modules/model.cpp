// A whole model, as its own configuration describes it.

#include "all_modules.hpp"
#include "shared.hpp"

#include "attn/files/families/model.hpp"
#include "attn/files/weights/language_model.hpp"

namespace attn::cli {
namespace {

/// "norm rms, epsilon 1e-06, …"
std::string text_of(const StepOptions& options)
{
    std::string text;
    for (const auto& [name, value] : options)
        text += (text.empty() ? "" : ", ") + name + " " + value;
    return text;
}

std::string layer_text(const BlockDescription& description, const BlockWeights& weights)
{
    StepOptions options = describe(description);
    if (const auto* mixture = std::get_if<ExpertsWeights>(&weights.feed_forward))
        options.emplace_back("experts", std::to_string(description.experts.top) + " of " +
                                            std::to_string(mixture->experts.size()) + " per token");
    return text_of(options);
}

/// "layers 0 to 5: …": those that are alike together.
void add_layers(std::vector<std::string>& lines, const std::vector<BlockDescription>& descriptions,
                const std::vector<BlockWeights>& weights)
{
    for (std::size_t first = 0, last = 0; first < weights.size(); first = last + 1) {
        const std::string text = layer_text(descriptions[first], weights[first]);
        for (last = first; last + 1 < weights.size() && layer_text(descriptions[last + 1], weights[last + 1]) == text;)
            ++last;
        const std::string numbers = first == last ? "layer " + std::to_string(first)
                                                  : "layers " + std::to_string(first) + " to " + std::to_string(last);
        lines.push_back(numbers + ": " + text);
    }
}

std::vector<std::string> description_of(const std::filesystem::path& folder)
{
    const auto [family, description, weights] = files::read_model(folder, files::read_weights(folder));
    const auto& [layers, norm, first_position, embedding_scale, logit_scale, logit_softcap] = description;
    StepOptions around{{"vocabulary", std::to_string(weights.embedding.shape(0))},
                       {"d_model", std::to_string(weights.embedding.shape(1))},
                       {"layers", std::to_string(layers.size())},
                       {"parameters", std::to_string(files::total(files::parameters(weights)))},
                       {"output", weights.output ? "a map of its own" : "tied to the embedding"}};
    if (weights.positions)
        around.emplace_back("positions", "learned, from row " + std::to_string(first_position));
    for (const auto& [name, value] : {std::pair("embedding_scale", embedding_scale), {"logit_scale", logit_scale},
                                      {"logit_softcap", logit_softcap}})
        if (value)
            around.emplace_back(name, exact_text(*value));
    std::vector<std::string> lines{family + ", as " + (folder / "config.json").string() + " says", text_of(around)};
    add_layers(lines, layers, weights.layers);
    return lines;
}

} // namespace

Module model_module()
{
    return {.name = "model",
            .summary = "a decoder as Hugging Face publishes it, computed as its config.json says",
            .inputs = {ids_input(), lengths_input()},
            .describe_folder = description_of,
            .run = with_ids([]<class Ids>(const Ids& ids, const ModuleRun& run) {
                const files::Model model = files::read_model(run.weights_path, run.arrays);
                const LanguageModelWeights& weights = model.weights;
                run.learned = files::parameters(weights);
                if constexpr (std::same_as<Ids, Integers>) {
                    expect_no_lengths(run);
                    (void)language_model(ids, weights, model.description, run.trace);
                } else {
                    (void)language_model(ids, run.inputs.lengths("lengths", ids.shape(0)), weights, model.description,
                                         run.trace);
                }
                run.trace.alias("output", "logits");
            })};
}

} // namespace attn::cli
