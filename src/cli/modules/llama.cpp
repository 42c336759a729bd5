// A decoder as Llama has them.

#include "families.hpp"
#include "shared.hpp"

#include <memory>

namespace attn {
namespace {

struct LlamaFlags {
    LlamaOptions options = {};
    std::optional<RotaryLayout> layout = {}; ///< that of the weights where it is not given

    std::vector<Flag> flags()
    {
        return {heads_flag(options.heads),
                rotary_base_flag(options.rotary),
                {"--rotary-layout", "",
                 one_of(layout, {{"pairs", RotaryLayout::pairs}, {"halves", RotaryLayout::halves}}),
                 "which features are rotated together: neighbours, or i and i + d/2 (default: halves where the weights "
                 "have Hugging Face's names, pairs where they have llama.cpp's or llama2.c's)"},
                {"--epsilon", "E", number(options.norm.epsilon, NumberRange::from_zero),
                 "added to the mean square, inside the root"}};
    }
};

} // namespace

Module llama_module()
{
    const auto flags = std::make_shared<LlamaFlags>();
    return {.name = "llama",
            .summary = "Hugging Face's LlamaForCausalLM, a decoder as many models of today have it",
            .inputs = {{"ids", "n", "tokens by their numbers", true, InputKind::whole_numbers}},
            .what_weights = "the weights, as Hugging Face, llama.cpp or llama2.c name them",
            .flags = flags->flags(),
            .run = [flags](const ModuleRun& run) {
                const Integers ids = run.input<Integers>("ids");
                const LlamaCheckpoint checkpoint = llama_weights(run.arrays);
                LlamaOptions options = flags->options;
                options.rotary.layout = flags->layout.value_or(checkpoint.layout);
                llama(ids, run.list(checkpoint.weights), options, run.trace);
                run.trace.alias("output", "logits");
            }};
}

} // namespace attn
