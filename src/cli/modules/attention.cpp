// Attention by itself, and by heads.

#include "families.hpp"

#include "attn/attention/bilinear.hpp"
#include "attn/weights/state_dict.hpp"

namespace attn {
namespace {

std::optional<Matrix> bias_of(const Inputs& inputs, const Trace& trace)
{
    if (!inputs.has("bias"))
        return std::nullopt;
    return trace("bias[n, m]", "", inputs.get<Matrix>("bias"));
}

/// Scores that only know single sequences.
Attention attend_by_learned_score(const Matrix& queries, const Matrix& keys, const Matrix& values,
                                  const NamedArrays& weights, Score score, const WeighingOptions& options,
                                  const Trace& trace)
{
    const std::size_t d_q = queries.shape(1), d_k = keys.shape(1);
    switch (score) {
    case Score::additive:
        return additive_attention(queries, keys, values,
                                  load_weights<AdditiveWeights>(weights, {{"d_q", d_q}, {"d_k", d_k}}), options, trace);
    case Score::concatenated:
        return concatenated_attention(
            queries, keys, values, load_weights<ConcatenatedWeights>(weights, {{"d_pair", d_q + d_k}}), options, trace);
    default:
        return bilinear_attention(queries, keys, values, load_weights<Matrix>(weights, {{"d_q", d_q}, {"d_k", d_k}}),
                                  options, trace);
    }
}

template <Sequence T>
T attend(const ModuleRun& run)
{
    const auto& [inputs, weights, options, trace] = run;
    const T queries = trace("queries[(b,) n, d_q]", "", inputs.get<T>("queries"));
    const T keys = trace("keys[(b,) m, d_k]", "", inputs.get<T>("keys"));
    const T values = trace("values[(b,) m, d_v]", "", inputs.get<T>("values"));
    const std::optional<AnyMask> mask = mask_for(queries, keys, run);
    const WeighingOptions weighing{.mask = mask, .normalization = options.normalization};
    const bool is_scaled = options.score == Score::scaled;
    if (is_scaled && options.normalization == Normalization::none)
        throw Error(
            "scaled scores are always normalised; without softmax the score is dot, and its scale is in the queries");
    if (!is_scaled && (options.scale || inputs.has("bias")))
        throw Error("only the scaled score takes a scale or a bias");

    if (is_scaled)
        return scaled_dot_product_attention(
                   queries, keys, values, {.mask = mask, .bias = bias_of(inputs, trace), .scale = options.scale}, trace)
            .context;
    if (options.score == Score::dot)
        return dot_product_attention(queries, keys, values, weighing, trace).context;
    if constexpr (std::same_as<T, Matrix>)
        return attend_by_learned_score(queries, keys, values, weights, options.score, weighing, trace).context;
    else
        throw Error("a learned score compares one sequence's queries and keys, expected queries (n, d_q), not a batch");
}

template <Sequence T>
void attend_by_heads(const ModuleRun& run)
{
    const auto& [inputs, weights, options, trace] = run;
    const T x = trace("x[(b,) n, d_model]", "", inputs.get<T>("x"));
    const std::string_view values_name = inputs.has("value_memory") ? "value_memory" : "memory";
    MultiHeadOptions of_heads = multi_head_options(options);
    if (!inputs.has("memory")) {
        if (inputs.has("value_memory"))
            throw Error(
                "there is an array value_memory but no memory: keys are made of memory, values of value_memory");
        of_heads.mask = mask_for(x, x, run);
        of_heads.bias = bias_of(inputs, trace);
        const AxisSizes sizes{{"d_model", features(x)}};
        multi_head_attention(x,
                             load_weights<MultiHeadWeights>(weights, sizes, {.has_output_map = options.has_output_map}),
                             of_heads, trace);
        return;
    }
    const T memory = trace("memory[(b,) m, d_memory]", "", inputs.get<T>("memory"));
    const T value_memory = inputs.get<T>(values_name);
    of_heads.mask = mask_for(x, memory, run);
    of_heads.bias = bias_of(inputs, trace);
    const AxisSizes sizes{{"d_model", features(x)}, {"d_memory", features(memory)}, {"d_value", features(value_memory)}};
    const MultiHeadWeights learned =
        load_weights<MultiHeadWeights>(weights, sizes, {.has_output_map = options.has_output_map});
    if (values_name == "memory")
        multi_head_attention(x, memory, learned, of_heads, trace);
    else
        multi_head_attention(x, memory, value_memory, learned, of_heads, trace);
}

} // namespace

void run_attention(const ModuleRun& run)
{
    const std::string_view label = "output[(b,) n, d_v]";
    if (run.inputs.is_batch("queries"))
        run.trace(label, "context", attend<Tensor3>(run));
    else
        run.trace(label, "context", attend<Matrix>(run));
}

void run_multi_head_attention(const ModuleRun& run)
{
    run.inputs.is_batch("x") ? attend_by_heads<Tensor3>(run) : attend_by_heads<Matrix>(run);
}

} // namespace attn
