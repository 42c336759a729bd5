// Attention by itself, and by heads.

#include "all_modules.hpp"
#include "fast_attention.hpp"
#include "shared.hpp"

#include "attn/files/weights/attention_variants.hpp"
#include "attn/reference/attention/bilinear.hpp"
#include "attn/reference/attention/with_past.hpp"
#include "attn/reference/layers/cache.hpp"
#include "attn/reference/ops/batch.hpp"

#include <memory>

namespace attn::cli {
namespace {

/// How a query is compared with a key.
enum class Score { scaled, dot, additive, concatenated, bilinear };

bool is_learned(Score score) { return score != Score::scaled && score != Score::dot; }

struct AttentionFlags {
    Score score = Score::scaled;
    Normalization normalization = Normalization::softmax;
    AttentionOptions options = {};
    std::optional<Causal> causal = {};
    Window window = {};
    std::optional<std::size_t> heads = {};
    bool is_fast = false;

    std::vector<Flag> flags()
    {
        return std::vector<Flag>{
                   {"--score", "",
                    one_of(score, {{"scaled", Score::scaled},
                                   {"dot", Score::dot},
                                   {"additive", Score::additive},
                                   {"concatenated", Score::concatenated},
                                   {"bilinear", Score::bilinear}})
                        .like("dot"),
                    "how a query is compared with a key"},
                   {"--normalization", "", one_of(normalization).like("none", "--score dot"),
                    "how scores become weights"},
                   scale_flag(options.scale),
                   softcap_flag(options.softcap),
                   mask_flag(causal),
                   {"--heads", "H", whole_number(heads, 1, std::size_t{1} << 20).like("2"),
                    "queries ((b,) n, H d_k) hold H heads side by side, keys and values as many or a divisor of H"},
                   {"--fast", "", is_fast,
                    "compute in float32, by tiles, as fast::attention() does; not with --round, --ablate or "
                    "--pitfall"}} +
               window_flags(window, " (of --mask; without it query i stands at key past + i, or, with "
                                    "lengths, the last query at the last key that they count)");
    }

    static std::string had_by_scaled(const std::string& flag)
    {
        if (flag == "--heads")
            return "heads";
        return flag == "--fast" ? "a fast form" : "a " + flag.substr(2);
    }

    void check(bool has_weights) const
    {
        if (score == Score::scaled && normalization == Normalization::none)
            throw Error("--normalization none needs --score dot: scaled scores are always normalised");
        const std::pair<const char*, bool> of_scaled[] = {{"--scale", options.scale.has_value()},
                                                          {"--softcap", options.softcap.has_value()},
                                                          {"--heads", heads.has_value()},
                                                          {"--fast", is_fast}};
        for (const auto& [flag, is_given] : of_scaled)
            if (score != Score::scaled && is_given)
                throw Error(flag, " has no effect: only the scaled score has ", had_by_scaled(flag));
        if (has_weights && !is_learned(score))
            throw Error("--weights has no effect: the scores scaled and dot have no weights");
        if (!has_weights && is_learned(score))
            throw Error(
                "this score is learned: --weights FILE has to give its query_weights, key_weights and score_weights "
                "(additive), hidden_weights and score_weights (concatenated), or bilinear_weights (bilinear)");
    }
};

/// The window as ONNX's operator Attention has it: without a causal mask the queries stand after those of the past, or,
/// with lengths, are the last that these count.
Window aligned(Window window, const Inputs& inputs)
{
    window.alignment = inputs.has("lengths") ? Causal::by_length : Causal::top_left;
    return window;
}

OptionalBias bias_of(const PairAxes& axes, const ModuleRun& run)
{
    return share(run.inputs.label("bias"), run.inputs.bias("mask", axes), run.trace);
}

/// Scores for single sequences only.
void attend_by_learned_score(const Matrix& queries, const Matrix& keys, const Matrix& values, Score score,
                             const WeighingOptions& options, const ModuleRun& run)
{
    const files::AxisSizes sizes{{"d_q", queries.shape(1)}, {"d_k", keys.shape(1)}};
    const files::AxisSizes pair{{"d_pair", queries.shape(1) + keys.shape(1)}};
    if (score == Score::additive)
        additive_attention(queries, keys, values, run.load<AdditiveWeights>(sizes), options, run.trace);
    else if (score == Score::concatenated)
        concatenated_attention(queries, keys, values, run.load<ConcatenatedWeights>(pair), options, run.trace);
    else
        bilinear_attention(queries, keys, values, run.load<Matrix>(sizes), options, run.trace);
}

/// Scores that have neither a scale nor heads nor a past.
template <Sequence T>
void attend_by_score(const AttentionFlags& flags, const ModuleRun& run)
{
    for (const std::string name : {"bias", "past_keys", "past_values", "sinks"})
        if (run.inputs.has(name))
            throw Error(name, " has no effect: only the scaled score has one");
    const T queries = run.input<T>("queries"), keys = run.input<T>("keys"), values = run.input<T>("values");
    const PairAxes axes = pair_axes(queries, keys);
    const OptionalMask mask = joined_mask(axes, flags.causal, run, aligned(flags.window, run.inputs));
    if (run.inputs.bias("mask", axes))
        throw Error("mask holds numbers that are added to the scores, which only the scaled score has a bias for");
    const WeighingOptions options{.mask = mask, .normalization = flags.normalization};
    if (flags.score == Score::dot)
        dot_product_attention(queries, keys, values, options, run.trace);
    else if constexpr (std::same_as<T, Matrix>)
        attend_by_learned_score(queries, keys, values, flags.score, options, run);
    else
        throw Error("a learned score compares one sequence's queries and keys, expected queries (n, d_q), not a batch");
    run.trace.alias("output", "context");
}

/// Keys and values of the past, where they are given: both or none.
bool has_past(const Inputs& inputs)
{
    if (inputs.has("past_keys") != inputs.has("past_values"))
        throw Error("past_keys and past_values belong together: give both, or none where there is no past");
    return inputs.has("past_keys");
}

template <Attending T>
std::optional<PastOf<T>> past_of(const Inputs& inputs)
{
    if (!has_past(inputs))
        return std::nullopt;
    return PastOf<T>{inputs.get<T>("past_keys"), inputs.get<T>("past_values")};
}

template <Attending T>
std::size_t tokens_in(const std::optional<PastOf<T>>& past)
{
    return past ? past->keys.shape(token_axis<T>) : 0;
}

/// The flags' options with what the input has for them.
AttentionOptions options_of(const AttentionFlags& flags, const OptionalMask& mask, const PairAxes& axes,
                            const ModuleRun& run)
{
    AttentionOptions options = masked(flags.options, {mask, bias_of(axes, run)});
    if (run.inputs.has("sinks"))
        options.sinks = run.inputs.get<Vector>("sinks");
    return options;
}

/// Queries, keys and values as they are: of one sequence, of a batch, or of the heads of a batch.
template <Attending T>
void attend(const AttentionFlags& flags, const ModuleRun& run)
{
    const Inputs& inputs = run.inputs;
    const T queries = run.input<T>("queries");
    const std::optional<PastOf<T>> past = past_of<T>(inputs);
    const bool is_shared = std::same_as<T, Tensor4> && inputs.shape("keys").at(1) != queries.shape(1);
    const auto take = [&](std::string_view name) { // which is made of more than that where heads share it
        return past || is_shared ? inputs.get<T>(name) : run.input<T>(name);
    };
    const T keys = take("keys"), values = take("values");
    PairAxes axes = pair_axes(queries, keys);
    axes.keys += tokens_in(past);
    if constexpr (std::same_as<T, Tensor4>) {
        axes.heads = queries.shape(1);
        axes.has_heads = true;
    }
    const OptionalMask mask = joined_mask(axes, flags.causal, run, aligned(flags.window, inputs), tokens_in(past));
    attention_with_past(queries, keys, values, past, options_of(flags, mask, axes, run), run.trace);
    run.trace.alias("output", "context");
}

/// How many heads keys have, whose heads are as wide as those of the queries.
std::size_t key_value_heads(std::size_t query_features, std::size_t key_features, std::size_t heads)
{
    const std::size_t d_k = query_features / heads;
    if (d_k == 0 || query_features % heads != 0 || key_features % d_k != 0)
        throw Error("queries of ", query_features, " features and keys of ", key_features,
                    " do not split into heads of one size: expected --heads ", heads,
                    " to divide the queries' features, and keys to hold whole heads of that size");
    return key_features / d_k;
}

/// Heads that lie side by side.
template <Sequence T>
void attend_packed(const AttentionFlags& flags, const ModuleRun& run)
{
    const Inputs& inputs = run.inputs;
    const T query = run.trace.input("query[(b,) n, h_d_k]", inputs.get<T>("queries"));
    const T key = run.trace.input("key[(b,) m, g_d_k]", inputs.get<T>("keys"));
    const T value = run.trace.input("value[(b,) m, g_d_v]", inputs.get<T>("values"));
    const PackedCounts counts{*flags.heads, key_value_heads(features(query), features(key), *flags.heads)};
    const std::optional<PastOf<Tensor4>> past = past_of<Tensor4>(inputs);
    PairAxes axes = pair_axes(query, key, flags.heads);
    axes.keys += tokens_in(past);
    axes.has_heads = true;
    const OptionalMask mask = joined_mask(axes, flags.causal, run, aligned(flags.window, inputs), tokens_in(past));
    packed_attention(query, key, value, counts, past, options_of(flags, mask, axes, run), run.trace);
}

/// A shape that an array of the past can have; how many tokens it has is left open.
struct PastShape {
    std::string axes; ///< "(b, past, d)"
    Shape shape;
    std::size_t tokens; ///< which axis
};

bool fits(const Shape& found, const PastShape& expected)
{
    Shape shape = expected.shape;
    if (found.size() == shape.size())
        shape[expected.tokens] = found[expected.tokens];
    return found == shape;
}

/// "(b, past, d) = (2, past, 4)"
std::string text_of(const PastShape& expected)
{
    std::string text;
    for (std::size_t axis = 0; axis < expected.shape.size(); ++axis)
        text += (axis == 0 ? "" : ", ") + (axis == expected.tokens ? "past" : std::to_string(expected.shape[axis]));
    return expected.axes + " = (" + text + ")";
}

/// @param which   "keys"
/// @param remark  goes on after what the array holds
void expect_past(const std::string& which, const std::vector<PastShape>& expected, const Inputs& inputs,
                 const std::string& remark = "")
{
    const Shape& found = inputs.shape("past_" + which);
    std::string text;
    for (const PastShape& one : expected) {
        if (fits(found, one))
            return;
        text += (text.empty() ? "" : " or ") + text_of(one);
    }
    throw Error("past_", which, " has the shape ", found, ", expected ", text, ": ", which, " of earlier tokens",
                remark);
}

/// Keys and values of the past are as the new ones, but for how many tokens there are; heads always have an axis.
void expect_past(std::optional<std::size_t> heads, const Inputs& inputs)
{
    const std::size_t rank = inputs.shape("queries").size();
    for (const std::string name : {"keys", "values"}) {
        Shape expected = inputs.shape(name);
        if (expected.size() != rank)
            return; // which is said where they are used
        if (heads) {
            const std::size_t features = expected.back();
            const std::size_t groups =
                key_value_heads(inputs.shape("queries").back(), inputs.shape("keys").back(), *heads);
            expected = {rank == 3 ? expected.front() : 1, groups, 0, features / groups};
        }
        const std::size_t tokens = expected.size() - 2;
        constexpr std::string_view axes[] = {"(past, d)", "(b, past, d)", "(b, g, past, d)"};
        expect_past(name, {{std::string(axes[tokens]), expected, tokens}}, inputs,
                    heads ? ", with an axis of heads though the new ones lie side by side" : "");
    }
}

void run_attention(const AttentionFlags& flags, const ModuleRun& run)
{
    const std::size_t rank =
        run.inputs.rank("queries", 2, 4, "a sequence (n, d_k), a batch (b, n, d_k), or heads (b, h, n, d_k)");
    if (rank == 4 && flags.heads)
        throw Error("--heads has no effect: queries have their heads on an axis, (b, h, n, d_k)");
    if (rank == 4 && flags.score != Score::scaled)
        throw Error(
            "only the scaled score has heads, expected queries (n, d_k) or (b, n, d_k); --scale 1 is the dot score");
    if (has_past(run.inputs))
        expect_past(flags.heads, run.inputs);
    if (flags.is_fast)
        attend_fast({flags.options, flags.causal, aligned(flags.window, run.inputs), flags.heads, has_past(run.inputs)},
                    run);
    else if (rank == 4)
        attend<Tensor4>(flags, run);
    else if (flags.heads)
        rank == 2 ? attend_packed<Matrix>(flags, run) : attend_packed<Tensor3>(flags, run);
    else if (flags.score == Score::scaled)
        rank == 2 ? attend<Matrix>(flags, run) : attend<Tensor3>(flags, run);
    else
        rank == 2 ? attend_by_score<Matrix>(flags, run) : attend_by_score<Tensor3>(flags, run);
}

struct MultiHeadFlags {
    MultiHeadOptions options = {};
    std::optional<Causal> causal = {}; ///< joined with the masks of the input
    Window window = {};
    std::optional<double> norm_epsilon = {};
    bool has_no_output_map = false;
};

/// Keys or values of the past, of heads side by side, or of heads on an axis.
template <Sequence T>
T packed_array(const Inputs& inputs, std::string_view name)
{
    if (inputs.shape(name).size() == token_axis<T> + 2)
        return inputs.get<T>(name);
    if constexpr (std::same_as<T, Tensor3>) {
        return pack_heads(inputs.get<Tensor4>(name));
    } else {
        const Tensor3 heads = inputs.get<Tensor3>(name);
        return tokens_of(pack_heads(as_heads(heads, 1, heads.shape(0))));
    }
}

} // namespace

std::size_t tokens_of_past(const Inputs& inputs)
{
    if (!has_past(inputs))
        return 0;
    const std::size_t rank = inputs.rank("past_keys", 2, 4, "((b,) past, g d) or ((b,) g, past, d)");
    return inputs.shape("past_keys")[rank - 2]; // the last axis but one, in every shape that it can have
}

template <Sequence T>
PastOfTokens<T> packed_past(const T& x, const MultiHeadWeights& weights, std::size_t heads, const Inputs& inputs)
{
    if (!has_past(inputs))
        return std::nullopt;
    const std::size_t key_features = weights.key.weight.shape(1), d_k = weights.query.weight.shape(1) / heads;
    const std::size_t groups = d_k == 0 ? 0 : key_features / d_k;
    for (const auto& [which, features] : {std::pair("keys", key_features), {"values", weights.value.weight.shape(1)}}) {
        std::vector<PastShape> expected{{"(past, g d)", {0, features}, 0}};
        if (groups > 0 && features % groups == 0) // else the weights do not fit, which is said where they are used
            expected.push_back({"(g, past, d)", {groups, 0, features / groups}, 1});
        if constexpr (std::same_as<T, Tensor3>)
            for (PastShape& one : expected) {
                one.axes.insert(1, "b, ");
                one.shape.insert(one.shape.begin(), x.shape(0));
                ++one.tokens;
            }
        expect_past(which, expected, inputs);
    }
    return KeyValueCacheOf<T>{packed_array<T>(inputs, "past_keys"), packed_array<T>(inputs, "past_values")};
}

template PastOfTokens<Matrix> packed_past(const Matrix&, const MultiHeadWeights&, std::size_t, const Inputs&);
template PastOfTokens<Tensor3> packed_past(const Tensor3&, const MultiHeadWeights&, std::size_t, const Inputs&);

namespace {

/// Heads with positions, or plain ones; of x alone, of a memory, or of one memory for keys and one for values.
template <Sequence T>
void attend_by_heads(const MultiHeadFlags& flags, const T& x, const ModuleRun& run)
{
    const Inputs& inputs = run.inputs;
    const Trace& trace = run.trace;
    const bool is_cross = inputs.has("memory"), has_values = inputs.has("value_memory");
    const std::size_t earlier = tokens_of_past(inputs);
    if (has_past(inputs) && is_cross)
        throw Error("past_keys has no effect: all keys and values are computed from memory");
    if (has_values && !is_cross)
        throw Error("there is an array value_memory but no memory: keys come from memory, values from value_memory");
    const T memory = is_cross ? run.input<T>("memory") : x;
    const T value_memory = has_values ? run.input<T>("value_memory") : memory;
    PairAxes axes = pair_axes(x, memory, flags.options.heads);
    axes.keys += earlier;
    const OptionalMask mask = joined_mask(axes, flags.causal, run, flags.window, earlier);
    const OptionalBias bias = bias_of(axes, run);
    files::AxisSizes sizes{{"d_model", features(x)}};
    if (is_cross)
        sizes.insert({{"d_memory", features(memory)}, {"d_value", features(value_memory)}});
    const auto weights = run.load<MultiHeadWeights>(sizes, {.has_output_map = !flags.has_no_output_map});
    const PastOfTokens<T> past = packed_past(x, weights, flags.options.heads, inputs);

    const bool is_layer = flags.options.norm_kind == NormKind::layer;
    if ((flags.norm_epsilon || flags.options.norm.adds_one || is_layer) && weights.query_norms.empty() &&
        weights.key_norms.empty())
        throw Error(flags.norm_epsilon ? "--norm-epsilon"
                    : is_layer         ? "--norm-kind"
                                       : "--norm-adds-one",
                    " has no effect: the weights have no norms of queries or keys, q_norm and k_norm");
    MultiHeadOptions options = masked(flags.options, {mask, bias});
    options.norm.epsilon = flags.norm_epsilon.value_or(options.norm.epsilon);
    if (past)
        cached_self_attention(x, past, weights, options, trace);
    else if (!is_cross)
        multi_head_attention(x, weights, options, trace);
    else if (!has_values)
        multi_head_attention(Sources(x, memory), weights, options, trace);
    else
        multi_head_attention(Sources(x, memory, value_memory), weights, options, trace);
}

} // namespace

Module attention_module()
{
    const auto flags = std::make_shared<AttentionFlags>();
    return {
        .name = "attention",
        .summary = "weighted averages of values; the weights say how well keys match queries",
        .inputs = {required("queries", "(b,) n, d_k", "or heads, (b, h, n, d_k)"),
                   required("keys", "(b,) m, d_k", "or (b, g, m, d_k), where g divides h"),
                   required("values", "(b,) m, d_v", "or (b, g, m, d_v)"),
                   {"past_keys", "(b,) past, d_k", "come before keys; of heads (b, g, past, d_k)"},
                   {"past_values", "(b,) past, d_v", "come before values; of heads (b, g, past, d_v)"},
                   mask_input(),
                   lengths_input(),
                   bias_input(),
                   {"sinks", "h", "one more score for each query of a head, whose weight is dropped; 1 without heads"}},
        .weights = Weights::optional,
        .what_weights = "the weights of a learned score: query_weights, key_weights, score_weights (additive); "
                        "hidden_weights, score_weights (concatenated); bilinear_weights",
        .flags = flags->flags(),
        .check = [flags](bool has_weights) { flags->check(has_weights); },
        .run = [flags](const ModuleRun& run) { run_attention(*flags, run); }};
}

Module multi_head_attention_module()
{
    const auto flags = std::make_shared<MultiHeadFlags>();
    return {.name = "multi-head-attention",
            .summary = "nn.MultiheadAttention: several attention heads side by side",
            .inputs = {required("x", "(b,) n, d_model"),
                       {"memory", "(b,) m, d_memory", "keys and values are computed from it (default: x)"},
                       {"value_memory", "(b,) m, d_value", "values are computed from it (default: memory)"},
                       {"past_keys", "(b,) past, g_d_k", "of tokens before those of x; or ((b,) g, past, d_k)"},
                       {"past_values", "(b,) past, g_d_v", "of earlier tokens; or ((b,) g, past, d_v)"},
                       mask_input(),
                       lengths_input(),
                       bias_input()},
            .flags = head_flags(flags->options) + window_flags(flags->window) +
                     std::vector<Flag>{
                         mask_flag(flags->causal),
                         {"--norm-epsilon", "E", number(flags->norm_epsilon, NumberRange::from_zero).like("0.5"),
                          "of the norms of queries and keys, where the weights have q_norm and k_norm (default: "
                          "1e-5)"},
                         {"--norm-kind", "", one_of(flags->options.norm_kind), "of the norms of queries and keys"},
                         {"--norm-adds-one", "", flags->options.norm.adds_one,
                          "the factor of a feature is 1 + gain in the norms of queries and keys"},
                         {"--without-output-map", "", flags->has_no_output_map,
                          "leave out W^O: the output is the heads side by side"}},
            .run = with_tokens(
                "x", [flags]<Sequence T>(const T& x, const ModuleRun& run) { attend_by_heads(*flags, x, run); })};
}

} // namespace attn::cli
