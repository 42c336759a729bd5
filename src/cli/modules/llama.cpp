// A decoder like Llama's.

#include "all_modules.hpp"
#include "fast_layers.hpp"
#include "shared.hpp"

#include "attn/files/weights/llama.hpp"

#include <memory>

namespace attn::cli {
namespace {

struct LlamaFlags {
    LlamaOptions options = {};
    std::optional<RotaryLayout> layout = {}; ///< that of the weights where it is not given
    bool is_fast = false;

    std::vector<Flag> flags()
    {
        return {heads_flag(options.heads),
                rotary_base_flag(options.rotary),
                {"--rotary-layout", "", one_of(layout),
                 "which features are rotated together: neighbours, or i and i + d/2 (default: halves where the weights "
                 "have Hugging Face's names, pairs where they have llama.cpp's or llama2.c's)"},
                rotary_features_flag(options.rotary.features),
                rotary_scaling_flag(options.rotary.scaling),
                {"--epsilon", "E", number(options.norm.epsilon, NumberRange::from_zero).like("0.5"),
                 "added to the mean square, inside the root"},
                fast_flag(is_fast, "fast::llama()")};
    }
};

/// Names that other models have, too, leave open what they compute.
void expect_names_of_llama(const files::LlamaCheckpoint& checkpoint)
{
    if (checkpoint.family != files::llama_families.back().family)
        throw files::WeightsError(
            "the tensors have ", checkpoint.family,
            " names, which Llama 1 to 3, Mistral, Qwen, Gemma and others share, and which of them they are no tensor "
            "says. Give the folder with their config.json to attn run model, or --without-config: then they are taken "
            "as the first Llama's, with the flags given");
}

} // namespace

Module llama_module()
{
    const auto flags = std::make_shared<LlamaFlags>();
    return {.name = "llama",
            .summary = "Hugging Face's LlamaForCausalLM, a decoder as in many models of today",
            .inputs = {ids_input(), lengths_input()},
            .what_weights = "the weights, as Hugging Face, llama.cpp or llama2.c name them",
            .flags = flags->flags(),
            .run = with_ids([flags]<class Ids>(const Ids& ids, const ModuleRun& run) {
                const files::LlamaCheckpoint checkpoint = files::llama_weights(run.arrays);
                if (run.has_config)
                    expect_names_of_llama(checkpoint);
                LlamaOptions options = flags->options;
                options.rotary.layout = flags->layout.value_or(checkpoint.layout);
                const LlamaWeights weights = run.list(checkpoint.weights);
                if constexpr (std::same_as<Ids, Integers>) {
                    expect_no_lengths(run);
                    flags->is_fast ? llama_fast(ids, weights, options, run.trace)
                                   : (void)llama(ids, weights, options, run.trace);
                } else {
                    if (flags->is_fast)
                        throw Error("--fast takes the ids of one sequence (n,), found ", shape_of(ids));
                    llama(ids, run.inputs.lengths("lengths", ids.shape(0)), weights, options, run.trace);
                }
                run.trace.alias("output", "logits");
            })};
}

} // namespace attn::cli
