// A decoder like GPT-2.

#include "all_modules.hpp"
#include "shared.hpp"

#include "attn/files/weights/gpt.hpp"
#include "attn/reference/layers/activation.hpp"
#include "attn/reference/models/gpt.hpp"

#include <memory>

namespace attn::cli {
namespace {

struct GptFlags {
    GptOptions options = {};
    std::optional<Activation> activation = {}; ///< that of the weights' names where it is not given

    std::vector<Flag> flags()
    {
        return {heads_flag(options.heads),
                {"--activation", "", one_of(activation).like("gelu"),
                 "of the hidden layer (default: gelu-tanh under GPT-2's names, gelu under nanoGPT's, else relu)"},
                epsilon_flag(options.norm)};
    }
};

} // namespace

Module gpt_module()
{
    const auto flags = std::make_shared<GptFlags>();
    return {.name = "gpt",
            .summary = "a decoder like GPT-2: pre-norm layers and learned positions, from ids to logits",
            .inputs = {ids_input(), lengths_input()},
            .what_weights =
                "the weights under the names of Hugging Face's GPT-2 or of nanoGPT, or token_embedding, "
                "position_embedding, layers.N (nn.TransformerEncoderLayer), norm, and lm_head where the output "
                "is not tied",
            .flags = flags->flags(),
            .run = with_ids([flags]<class Ids>(const Ids& ids, const ModuleRun& run) {
                const files::GptCheckpoint checkpoint = files::gpt_weights(run.arrays);
                GptOptions options = flags->options;
                options.feed_forward.activation =
                    flags->activation.value_or(checkpoint.activation.value_or(Activation::relu));
                const GptWeights weights = run.list(checkpoint.weights);
                if constexpr (std::same_as<Ids, Integers>) {
                    expect_no_lengths(run);
                    gpt(ids, weights, options, run.trace);
                } else {
                    gpt(ids, run.inputs.lengths("lengths", ids.shape(0)), weights, options, run.trace);
                }
                run.trace.alias("output", "logits");
            })};
}

} // namespace attn::cli
