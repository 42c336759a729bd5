// Attention as an early Keras layer has it.

#include "families.hpp"

#include "attn/weights/state_dict.hpp"

namespace attn {
namespace {

/// Ones and zeros, as numbers or as booleans.
template <class T>
std::optional<T> mask_of(const Inputs& inputs, std::string_view name)
{
    if (!inputs.has(name))
        return std::nullopt;
    T mask = inputs.get<T>(name);
    for (const double value : mask)
        if (value != 0 && value != 1)
            throw Error(std::string(name) + " holds " + exact_text(value) + ", expected 1 for a token, 0 for padding");
    return mask;
}

template <Sequence T>
void attend(const ModuleRun& run)
{
    const Inputs& inputs = run.inputs;
    const ModuleOptions& options = run.options;
    const Trace& trace = run.trace;
    const T x = trace("x[(b,) n, d_model]", "", inputs.get<T>("x"));
    const auto given_or = [&](std::string_view name, std::string_view step, std::string_view otherwise,
                              const T& other) {
        if (inputs.has(name))
            return trace(step, "", inputs.get<T>(name));
        trace.alias(name, otherwise);
        return other;
    };
    const T memory = given_or("memory", "memory[(b,) m, d_memory]", "x", x);
    const T value_memory = given_or("value_memory", "value_memory[(b,) m, d_value]", "memory", memory);
    const KerasMasksOf<T> masks{mask_of<PerToken<T>>(inputs, "value_mask"), mask_of<PerToken<T>>(inputs, "query_mask")};
    keras_attention(x, memory, value_memory, masks,
                    load_weights<KerasAttentionWeights>(run.weights, {{"d_model", features(x)},
                                                                      {"d_memory", features(memory)},
                                                                      {"d_value", features(value_memory)}}),
                    {.heads = options.heads, .mask_right = options.mask_right, .penalty = options.penalty}, trace);
}

} // namespace

void run_keras_attention(const ModuleRun& run)
{
    run.inputs.is_batch("x") ? attend<Tensor3>(run) : attend<Matrix>(run);
}

} // namespace attn
