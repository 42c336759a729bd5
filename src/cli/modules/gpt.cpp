// A decoder as GPT-2 has it.

#include "families.hpp"
#include "shared.hpp"

#include "attn/models/gpt.hpp"

#include <memory>

namespace attn {

Module gpt_module()
{
    const auto options = std::make_shared<GptOptions>();
    return {.name = "gpt",
            .summary = "a decoder as GPT-2 has it: pre-norm layers and learned positions, from ids to logits",
            .inputs = {{"ids", "n", "tokens by their numbers", true, InputKind::whole_numbers}},
            .what_weights = "token_embedding, position_embedding, layers.N (nn.TransformerEncoderLayer), norm, and "
                            "lm_head where the output is not tied",
            .flags = {heads_flag(options->heads), activation_flag(options->feed_forward), epsilon_flag(options->norm)},
            .run = [options](const ModuleRun& run) {
                const Integers ids = run.input<Integers>("ids");
                gpt(ids, run.load<GptWeights>({}), *options, run.trace);
                run.trace.alias("output", "logits");
            }};
}

} // namespace attn
