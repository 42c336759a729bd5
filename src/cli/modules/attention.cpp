// Attention by itself, and by heads.

#include "families.hpp"
#include "shared.hpp"

#include "attn/attention/bilinear.hpp"

#include <memory>

namespace attn {
namespace {

/// How a query is compared with a key.
enum class Score { scaled, dot, additive, concatenated, bilinear };

bool is_learned(Score score) { return score != Score::scaled && score != Score::dot; }

struct AttentionFlags {
    Score score = Score::scaled;
    Normalization normalization = Normalization::softmax;
    std::optional<double> scale = {};
    std::optional<Causal> causal = {};

    std::vector<Flag> flags()
    {
        return {{"--score", "",
                 one_of(score, {{"scaled", Score::scaled},
                                {"dot", Score::dot},
                                {"additive", Score::additive},
                                {"concatenated", Score::concatenated},
                                {"bilinear", Score::bilinear}}),
                 "how a query is compared with a key"},
                {"--normalization", "",
                 one_of(normalization, {{"softmax", Normalization::softmax}, {"none", Normalization::none}}),
                 "how scores become weights"},
                scale_flag(scale),
                mask_flag(causal)};
    }

    void check(bool has_weights) const
    {
        if (score == Score::scaled && normalization == Normalization::none)
            throw Error("--normalization none needs --score dot: scaled scores are always normalised");
        if (score != Score::scaled && scale)
            throw Error("--scale has no effect: only the scaled score has a scale");
        if (has_weights && !is_learned(score))
            throw Error("--weights has no effect: the scores scaled and dot have no weights");
        if (!has_weights && is_learned(score))
            throw Error(
                "this score is learned: --weights FILE has to give its query_weights, key_weights and score_weights "
                "(additive), hidden_weights and score_weights (concatenated), or bilinear_weights (bilinear)");
    }
};

template <Sequence T>
std::optional<AnyBias> bias_of(const T& queries, const T& keys, const ModuleRun& run)
{
    return share(run.inputs.label("bias"), run.inputs.pairs<AnyBias>("bias", queries, keys), run.trace);
}

/// Scores that only know single sequences.
void attend_by_learned_score(const Matrix& queries, const Matrix& keys, const Matrix& values,
                             const std::optional<AnyMask>& mask, Score score, const WeighingOptions& options,
                             const ModuleRun& run)
{
    const AxisSizes sizes{{"d_q", queries.shape(1)}, {"d_k", keys.shape(1)}};
    const AxisSizes pair{{"d_pair", queries.shape(1) + keys.shape(1)}};
    if (score == Score::additive)
        additive_attention(queries, keys, values, mask, run.load<AdditiveWeights>(sizes), options, run.trace);
    else if (score == Score::concatenated)
        concatenated_attention(queries, keys, values, mask, run.load<ConcatenatedWeights>(pair), options, run.trace);
    else
        bilinear_attention(queries, keys, values, mask, run.load<Matrix>(sizes), options, run.trace);
}

template <Sequence T>
void attend(const AttentionFlags& flags, const T& queries, const ModuleRun& run)
{
    const T keys = run.input<T>("keys"), values = run.input<T>("values");
    const std::optional<AnyMask> mask = joined_mask(queries, keys, flags.causal, run);
    const WeighingOptions options{.normalization = flags.normalization};
    if (flags.score != Score::scaled && run.inputs.has("bias"))
        throw Error("bias has no effect: only the scaled score has one");

    if (flags.score == Score::scaled)
        scaled_dot_product_attention(queries, keys, values, mask, bias_of(queries, keys, run), {.scale = flags.scale},
                                     run.trace);
    else if (flags.score == Score::dot)
        dot_product_attention(queries, keys, values, mask, options, run.trace);
    else if constexpr (std::same_as<T, Matrix>)
        attend_by_learned_score(queries, keys, values, mask, flags.score, options, run);
    else
        throw Error("a learned score compares one sequence's queries and keys, expected queries (n, d_q), not a batch");
    run.trace.alias("output", "context");
}

struct MultiHeadFlags {
    GroupedQueryOptions options = {};
    std::optional<Causal> causal = {}; ///< joined with the masks of the input
    bool has_no_output_map = false;
};

/// Heads with positions, or plain ones; of x alone, of a memory, or of one memory for keys and one for values.
template <Sequence T>
void attend_by_heads(const MultiHeadFlags& flags, const T& x, const ModuleRun& run)
{
    const Inputs& inputs = run.inputs;
    const Trace& trace = run.trace;
    const bool is_cross = inputs.has("memory"), has_values = inputs.has("value_memory");
    if (has_values && !is_cross)
        throw Error("there is an array value_memory but no memory: keys are made of memory, values of value_memory");
    const T memory = is_cross ? run.input<T>("memory") : x;
    const T value_memory = has_values ? run.input<T>("value_memory") : memory;
    const std::optional<AnyMask> mask = joined_mask(x, memory, flags.causal, run);
    const std::optional<AnyBias> bias = bias_of(x, memory, run);
    AxisSizes sizes{{"d_model", features(x)}};
    if (is_cross)
        sizes.insert({{"d_memory", features(memory)}, {"d_value", features(value_memory)}});
    const auto weights = run.load<MultiHeadWeights>(sizes, {.has_output_map = !flags.has_no_output_map});

    const GroupedQueryOptions& options = flags.options;
    const MultiHeadOptions plain{.heads = options.heads, .scale = options.scale};
    const auto attend = [&](const auto&... tokens) {
        if (options.positions == HeadPositions::none)
            multi_head_attention(tokens..., mask, bias, weights, plain, trace);
        else
            grouped_query_attention(tokens..., mask, bias, weights, options, trace);
    };
    if (!is_cross)
        attend(x);
    else if (!has_values)
        attend(x, memory);
    else
        attend(x, memory, value_memory);
}

} // namespace

Module attention_module()
{
    const auto flags = std::make_shared<AttentionFlags>();
    return {.name = "attention",
            .summary = "weighted averages of values, by how well queries match keys",
            .inputs = {required("queries", "(b,) n, d_k"), required("keys", "(b,) m, d_k"),
                       required("values", "(b,) m, d_v"), mask_input(), lengths_input(), bias_input()},
            .weights = Weights::optional,
            .what_weights = "the weights of a learned score: query_weights, key_weights, score_weights (additive); "
                            "hidden_weights, score_weights (concatenated); bilinear_weights",
            .flags = flags->flags(),
            .check = [flags](bool has_weights) { flags->check(has_weights); },
            .run = with_tokens("queries", [flags]<Sequence T>(const T& queries, const ModuleRun& run) {
                attend(*flags, queries, run);
            })};
}

Module multi_head_attention_module()
{
    const auto flags = std::make_shared<MultiHeadFlags>();
    return {
        .name = "multi-head-attention",
        .summary = "nn.MultiheadAttention: several attentions beside each other",
        .inputs = {required("x", "(b,) n, d_model"),
                   {"memory", "(b,) m, d_memory", "keys and values are made of it (default: x)"},
                   {"value_memory", "(b,) m, d_value", "values are made of it (default: memory)"},
                   mask_input(),
                   lengths_input(),
                   bias_input()},
        .flags = head_flags(flags->options) + std::vector<Flag>{mask_flag(flags->causal),
                                                                {"--without-output-map", "", flags->has_no_output_map,
                                                                 "leave the heads side by side: there is no W^o"}},
        .run = with_tokens("x",
                           [flags]<Sequence T>(const T& x, const ModuleRun& run) { attend_by_heads(*flags, x, run); })};
}

} // namespace attn
