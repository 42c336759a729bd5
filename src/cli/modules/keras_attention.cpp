// The attention of an early Keras layer.

#include "all_modules.hpp"
#include "shared.hpp"

#include "attn/files/weights/attention_variants.hpp"
#include "attn/reference/models/keras_attention.hpp"

#include <memory>

namespace attn::cli {
namespace {

struct KerasFlags {
    KerasAttentionOptions options = {};
    std::optional<double> penalty = {};

    std::vector<Flag> flags()
    {
        return {heads_flag(options.heads),
                {"--mask-right", "", options.mask_right, "no later keys"},
                {"--penalty", "P", number(penalty, NumberRange::from_zero).like("0.5", "--mask-right"),
                 "subtracted from the scores of keys that a query can't attend to (default: 1e10)"}};
    }
};

template <Sequence T>
void attend(const KerasFlags& flags, const T& x, const ModuleRun& run)
{
    const Inputs& inputs = run.inputs;
    KerasAttentionOptions options = flags.options;
    if (flags.penalty && !options.mask_right && !inputs.has("value_mask"))
        throw Error("--penalty has no effect: there is no value_mask, and no --mask-right");
    options.penalty = flags.penalty.value_or(options.penalty);
    const auto mask = [&](std::string_view name) {
        return inputs.has(name) ? std::optional(inputs.get<PerToken<T>>(name)) : std::nullopt;
    };
    const auto given_or = [&](std::string_view name, std::string_view otherwise, const T& other) -> T {
        if (inputs.has(name))
            return run.input<T>(name);
        run.trace.alias(name, otherwise);
        return other;
    };
    const T memory = given_or("memory", "x", x), value_memory = given_or("value_memory", "memory", memory);
    const files::AxisSizes sizes{
        {"d_model", features(x)}, {"d_memory", features(memory)}, {"d_value", features(value_memory)}};
    keras_attention(x, memory, value_memory, KerasMasksOf<T>{mask("value_mask"), mask("query_mask")},
                    run.load<KerasAttentionWeights>(sizes), options, run.trace);
}

ModuleInput mask_of(std::string name, std::string axes, std::string help)
{
    return {std::move(name), std::move(axes), std::move(help), false, InputKind::zero_or_one};
}

} // namespace

Module keras_attention_module()
{
    const auto flags = std::make_shared<KerasFlags>();
    return {.name = "keras-attention",
            .summary = "an early layer for Keras: heads without biases or W^O, masks that subtract a large number",
            .inputs = {required("x", "(b,) n, d_model"),
                       {"memory", "(b,) m, d_memory", "keys are computed from it (default: x)"},
                       {"value_memory", "(b,) m, d_value", "values are computed from it (default: memory)"},
                       mask_of("value_mask", "(b,) m", "1 for a token that can be attended to, 0 for padding"),
                       mask_of("query_mask", "(b,) n", "1 for a token whose output counts, 0 for padding")},
            .what_weights = "query_weights, key_weights and value_weights, each (in, out)",
            .flags = flags->flags(),
            .run = with_tokens("x", [flags](const auto& x, const ModuleRun& run) { attend(*flags, x, run); })};
}

} // namespace attn::cli
