// A whole model, as its own configuration describes it.

#include "all_modules.hpp"
#include "shared.hpp"

#include "attn/files/families/model.hpp"
#include "attn/files/weights/language_model.hpp"

namespace attn::cli {

Module model_module()
{
    return {.name = "model",
            .summary = "a decoder as Hugging Face publishes it, computed as its config.json says",
            .inputs = {ids_input(), lengths_input()},
            .what_weights = "the model: a folder as save_pretrained() writes it, with config.json and .safetensors",
            .reads_config = true,
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
