// Attention by itself, and by heads.

#include "families.hpp"

#include "attn/attention/bilinear.hpp"
#include "attn/weights/state_dict.hpp"

namespace attn {
namespace {

std::optional<AnyBias> bias_of(const Inputs& inputs, const Trace& trace)
{
    if (!inputs.has("bias"))
        return std::nullopt;
    return trace("bias[n, m]", "", inputs.get<Matrix>("bias"));
}

/// Scores that only know single sequences.
Attention attend_by_learned_score(const Matrix& queries, const Matrix& keys, const Matrix& values,
                                  const std::optional<AnyMask>& mask, const NamedArrays& weights, Score score,
                                  const WeighingOptions& options, const Trace& trace)
{
    const std::size_t d_q = queries.shape(1), d_k = keys.shape(1);
    switch (score) {
    case Score::additive:
        return additive_attention(queries, keys, values, mask, additive_weights(weights, d_q, d_k), options, trace);
    case Score::concatenated:
        return concatenated_attention(queries, keys, values, mask, concatenated_weights(weights, d_q + d_k), options,
                                      trace);
    default:
        return bilinear_attention(queries, keys, values, mask, bilinear_weights(weights, d_q, d_k), options, trace);
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
    const WeighingOptions weighing{.normalization = options.normalization};
    const bool is_scaled = options.score == Score::scaled;
    if (is_scaled && options.normalization == Normalization::none)
        throw Error(
            "scaled scores are always normalised; without softmax the score is dot, and its scale is in the queries");
    if (!is_scaled && (options.scale || inputs.has("bias")))
        throw Error("only the scaled score takes a scale or a bias");

    if (is_scaled)
        return scaled_dot_product_attention(queries, keys, values, mask, bias_of(inputs, trace),
                                            {.scale = options.scale}, trace)
            .context;
    if (options.score == Score::dot)
        return dot_product_attention(queries, keys, values, mask, weighing, trace).context;
    if constexpr (std::same_as<T, Matrix>)
        return attend_by_learned_score(queries, keys, values, mask, weights, options.score, weighing, trace).context;
    else
        throw Error("a learned score compares one sequence's queries and keys, expected queries (n, d_q), not a batch");
}

/// Heads with positions or shared keys and values, or plain ones.
template <Sequence T>
void attend_from(const T& x, const T& memory, const T& value_memory, const MultiHeadWeights& learned,
                 const ModuleRun& run)
{
    const std::optional<AnyMask> mask = mask_for(x, memory, run);
    const std::optional<AnyBias> bias = bias_of(run.inputs, run.trace);
    const GroupedQueryOptions options = grouped_query_options(run.options);
    const MultiHeadOptions plain{.heads = options.heads, .scale = options.scale};
    const bool is_plain = options.positions == HeadPositions::none;
    if (!run.inputs.has("memory"))
        is_plain ? multi_head_attention(x, mask, bias, learned, plain, run.trace)
                 : grouped_query_attention(x, mask, bias, learned, options, run.trace);
    else if (run.inputs.has("value_memory"))
        is_plain ? multi_head_attention(x, memory, value_memory, mask, bias, learned, plain, run.trace)
                 : grouped_query_attention(x, memory, value_memory, mask, bias, learned, options, run.trace);
    else
        is_plain ? multi_head_attention(x, memory, mask, bias, learned, plain, run.trace)
                 : grouped_query_attention(x, memory, mask, bias, learned, options, run.trace);
}

template <Sequence T>
void attend_by_heads(const ModuleRun& run)
{
    const auto& [inputs, weights, options, trace] = run;
    const T x = trace("x[(b,) n, d_model]", "", inputs.get<T>("x"));
    if (!inputs.has("memory")) {
        if (inputs.has("value_memory"))
            throw Error(
                "there is an array value_memory but no memory: keys are made of memory, values of value_memory");
        attend_from(x, x, x, multi_head_weights(weights, {.d_model = features(x)}, options.has_output_map), run);
        return;
    }
    const T memory = trace("memory[(b,) m, d_memory]", "", inputs.get<T>("memory"));
    const T value_memory =
        inputs.has("value_memory") ? trace("value_memory[(b,) m, d_value]", "", inputs.get<T>("value_memory")) : memory;
    const AttentionSizes sizes{.d_model = features(x), .d_memory = features(memory), .d_value = features(value_memory)};
    attend_from(x, memory, value_memory, multi_head_weights(weights, sizes, options.has_output_map), run);
}

} // namespace

void run_attention(const ModuleRun& run)
{
    run.inputs.is_batch("queries") ? void(attend<Tensor3>(run)) : void(attend<Matrix>(run));
    run.trace.alias("output", "context");
}

void run_multi_head_attention(const ModuleRun& run)
{
    run.inputs.is_batch("x") ? attend_by_heads<Tensor3>(run) : attend_by_heads<Matrix>(run);
}

} // namespace attn
