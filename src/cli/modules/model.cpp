// A whole model, as its own configuration describes it.

#include "all_modules.hpp"
#include "shared.hpp"

#include "attn/cli/print_escaped.hpp"
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
    const auto [family, description, weights, not_computed] = files::read_model(folder, files::read_weights(folder));
    const auto& [layers, norm, is_causal, has_logits, first_position, padding_id, embedding_scale, head_activation,
                 logit_scale, logit_softcap] = description;
    StepOptions around{{"vocabulary", std::to_string(weights.embedding.shape(0))},
                       {"d_model", std::to_string(weights.embedding.shape(1))},
                       {"layers", std::to_string(layers.size())},
                       {"parameters", std::to_string(files::total(files::parameters(weights)))},
                       {"output", !has_logits      ? "the last hidden states"
                                  : weights.output ? "a map of its own"
                                                   : "tied to the embedding"}};
    if (!is_causal)
        around.emplace_back("attention", "to all tokens");
    if (padding_id)
        around.emplace_back("positions", "learned, of tokens other than " + std::to_string(*padding_id));
    else if (weights.positions)
        around.emplace_back("positions", "learned, from row " + std::to_string(first_position));
    if (weights.token_types)
        around.emplace_back("token_types", std::to_string(weights.token_types->shape(0)));
    if (weights.prediction_head)
        around.emplace_back("head", std::string(name_of(head_activation)));
    for (const auto& [name, value] : {std::pair("embedding_scale", embedding_scale),
                                      {"logit_scale", logit_scale},
                                      {"logit_softcap", logit_softcap}})
        if (value)
            around.emplace_back(name, exact_text(*value));
    std::vector<std::string> lines{family + ", as " + (folder / "config.json").string() + " says", text_of(around)};
    add_layers(lines, layers, weights.layers);
    for (const std::string& part : not_computed)
        lines.push_back("not computed: " + part);
    return lines;
}

/// The types of tokens, or nothing where none are given.
template <class Ids>
LanguageModelOptions<Ids> options_of(const ModuleRun& run)
{
    if (!run.inputs.has("token_type_ids"))
        return {};
    return {.token_types = run.inputs.get<Ids>("token_type_ids")};
}

} // namespace

Module model_module()
{
    return {.name = "model",
            .summary = "a decoder or encoder as Hugging Face publishes it, computed as its config.json says",
            .inputs = {ids_input(),
                       lengths_input(),
                       {"token_type_ids", "(b,) n", "the type of each token, such as its sentence's; 0 unless given",
                        false, InputKind::whole_numbers}},
            .describe_folder = description_of,
            .run = with_ids([]<class Ids>(const Ids& ids, const ModuleRun& run) {
                const files::Model model = files::read_model(run.weights_path, run.arrays);
                const LanguageModelWeights& weights = model.weights;
                run.learned = files::parameters(weights);
                for (const std::string& part : model.not_computed)
                    print_error("attn run", Error("note: not computed: " + part));
                const LanguageModelOptions<Ids> options = options_of<Ids>(run);
                if constexpr (std::same_as<Ids, Integers>) {
                    expect_no_lengths(run);
                    (void)language_model(ids, weights, model.description, options, run.trace);
                } else {
                    (void)language_model(ids, run.inputs.lengths("lengths", ids.shape(0)), weights, model.description,
                                         options, run.trace);
                }
                if (model.description.has_logits)
                    run.trace.alias("output", "logits");
            })};
}

} // namespace attn::cli
