#include "attn/layers/multi_head.hpp"

#include "attn/ops/concat.hpp"
#include "attn/shape.hpp"

#include <string>

namespace attn {
namespace {

/// Who asks and who answers, under the names that the trace has for them.
template <Sequence T>
struct Sources {
    const T& queries;
    const T& keys;
    const T& values;
    std::string_view keys_name;
    std::string_view values_name;
    const KeyValueCache* past = nullptr; ///< of one sequence
};

std::size_t key_value_heads(const MultiHeadOptions& options) { return options.key_value_heads.value_or(options.heads); }

template <Sequence T>
constexpr std::size_t rows = std::same_as<T, Matrix> ? 0 : 1; // the axis of tokens; features follow

template <Sequence T>
void expect_shared_out(std::string_view role, const T& columns, std::size_t heads)
{
    const std::size_t width = shape_of(columns).back();
    if (heads == 0 || width == 0 || width % heads != 0)
        throw ShapeError("multi_head_attention: " + std::string(role) + " " + to_string(shape_of(columns)) +
                         " can't be shared out evenly to " + std::to_string(heads) + " heads");
}

void expect_one_bias(const MultiHeadOptions& options)
{
    if (options.bias && options.positions == HeadPositions::alibi)
        throw Error("multi_head_attention: ALiBi is a bias, and another one is given: add them up and give the sum");
}

/// Packed tensors, or the weights that make them, and their roles.
template <Sequence T>
struct Packed {
    std::string_view role;
    const T& columns;

    std::size_t width() const { return shape_of(columns).back(); }
    std::string text() const { return std::string(role) + " " + to_string(shape_of(columns)); }
};

/// Every head has keys and values: those of its own, or those that it shares with its neighbours.
template <Sequence T>
void expect_groups(const Packed<T>& query, const Packed<T>& key, const Packed<T>& value,
                   const std::optional<LinearWeights>& output, const MultiHeadOptions& options)
{
    const std::size_t heads = options.heads, groups = key_value_heads(options);
    expect_shared_out(query.role, query.columns, heads);
    expect_shared_out(value.role, value.columns, groups);
    if (heads % groups != 0)
        throw ShapeError("multi_head_attention: " + std::to_string(heads) + " heads can't be shared out evenly to " +
                         std::to_string(groups) + " key/value heads");
    if (key.width() * heads != query.width() * groups)
        throw ShapeError("multi_head_attention: " + query.text() + " of " + std::to_string(heads) + " heads and " +
                         key.text() + " of " + std::to_string(groups) + " must agree in d_k, the columns of one head");
    if (output && value.width() * heads != output->weight.shape(0) * groups)
        throw ShapeError("multi_head_attention: " + value.text() + " of " + std::to_string(groups) +
                         " key/value heads and output weights " + to_string(shape_of(output->weight)) + " of " +
                         std::to_string(heads) + " heads must agree in d_v, the features of one head");
}

void expect_past(const KeyValueCache& past, const MultiHeadWeights& weights)
{
    expect_agreement("cached_self_attention", "g d_k", {"past keys", past.keys, 1},
                     {"key weights", weights.key.weight, 1});
    expect_agreement("cached_self_attention", "g d_v", {"past values", past.values, 1},
                     {"value weights", weights.value.weight, 1});
    expect_agreement("cached_self_attention", "past", {"past keys", past.keys, 0}, {"past values", past.values, 0});
}

template <Sequence T>
void expect_fit(const Sources<T>& from, const MultiHeadWeights& weights, const MultiHeadOptions& options)
{
    constexpr std::string_view function = "multi_head_attention";
    expect_agreement(function, "d_model", {"x", from.queries, rows<T> + 1}, {"query weights", weights.query.weight, 0});
    expect_agreement(function, "its features", {from.keys_name, from.keys, rows<T> + 1},
                     {"key weights", weights.key.weight, 0});
    expect_agreement(function, "its features", {from.values_name, from.values, rows<T> + 1},
                     {"value weights", weights.value.weight, 0});
    const bool is_grouped = key_value_heads(options) != options.heads;
    if (!is_grouped)
        expect_agreement(function, "h d_k", {"query weights", weights.query.weight, 1},
                         {"key weights", weights.key.weight, 1});
    expect_agreement(function, "m", {from.keys_name, from.keys, rows<T>}, {from.values_name, from.values, rows<T>});
    if (weights.output && !is_grouped)
        expect_agreement(function, "h d_v", {"value weights", weights.value.weight, 1},
                         {"output weights", weights.output->weight, 0});
    expect_groups<Matrix>({"query weights", weights.query.weight}, {"key weights", weights.key.weight},
                          {"value weights", weights.value.weight}, weights.output, options);
    if (from.past != nullptr)
        expect_past(*from.past, weights);
    expect_one_bias(options);
}

/// The same of what is packed already.
template <Sequence T>
void expect_fit(const PackedHeadsOf<T>& packed, const std::optional<LinearWeights>& output,
                const MultiHeadOptions& options)
{
    constexpr std::string_view function = "attend_by_heads";
    if constexpr (std::same_as<T, Tensor3>)
        expect_agreement(function, "b", {"query", packed.query, 0}, {"key", packed.key, 0});
    expect_agreement(function, "m", {"key", packed.key, rows<T>}, {"value", packed.value, rows<T>});
    if (key_value_heads(options) == options.heads) {
        expect_agreement(function, "h d_k", {"query", packed.query, rows<T> + 1}, {"key", packed.key, rows<T> + 1});
        if (output)
            expect_agreement(function, "h d_v", {"value", packed.value, rows<T> + 1},
                             {"output weights", output->weight, 0});
    }
    expect_groups<T>({"query", packed.query}, {"key", packed.key}, {"value", packed.value}, output, options);
    expect_one_bias(options);
}

StepOptions describe(const MultiHeadOptions& options)
{
    constexpr std::string_view positions[] = {"none", "rotary", "alibi"};
    StepOptions described{{"heads", std::to_string(options.heads)},
                          {"mask", options.mask ? "given" : "none"},
                          {"bias", options.bias ? "given" : "none"},
                          {"scale", options.scale ? exact_text(*options.scale) : "1/sqrt(d_k)"},
                          {"positions", std::string(positions[static_cast<std::size_t>(options.positions)])}};
    if (key_value_heads(options) != options.heads)
        described.insert(described.begin() + 1, {"key_value_heads", std::to_string(key_value_heads(options))});
    return described;
}

/// The axes of keys and values: those of all heads, or of the groups that share them.
struct KeyValueLabels {
    std::string_view key_weights, key_bias, key, value_weights, value_bias, value;
};

KeyValueLabels labels_of(std::string_view keys_name, std::string_view values_name, bool is_grouped, bool has_past)
{
    const bool is_self = keys_name == "x";
    if (is_grouped)
        return {is_self ? "key_weights[d_model, g_d_k]" : "key_weights[d_memory, g_d_k]",
                "key_bias[g_d_k]",
                has_past ? "key[n, g_d_k]" : "key[(b,) m, g_d_k]",
                is_self                   ? "value_weights[d_model, g_d_v]"
                : values_name == "memory" ? "value_weights[d_memory, g_d_v]"
                                          : "value_weights[d_value, g_d_v]",
                "value_bias[g_d_v]",
                has_past ? "value[n, g_d_v]" : "value[(b,) m, g_d_v]"};
    return {is_self ? "key_weights[d_model, h_d_k]" : "key_weights[d_memory, h_d_k]",
            "key_bias[h_d_k]",
            has_past ? "key[n, h_d_k]" : "key[(b,) m, h_d_k]",
            is_self                   ? "value_weights[d_model, h_d_v]"
            : values_name == "memory" ? "value_weights[d_memory, h_d_v]"
                                      : "value_weights[d_value, h_d_v]",
            "value_bias[h_d_v]",
            has_past ? "value[n, h_d_v]" : "value[(b,) m, h_d_v]"};
}

template <Sequence T>
PackedHeadsOf<T> project(const Sources<T>& from, const MultiHeadWeights& weights, bool is_grouped, const Trace& trace)
{
    const KeyValueLabels labels = labels_of(from.keys_name, from.values_name, is_grouped, from.past != nullptr);
    return {
        linear(from.queries, weights.query,
               {.input = "x",
                .weight = "query_weights[d_model, h_d_k]",
                .bias = "query_bias[h_d_k]",
                .output = "query[(b,) n, h_d_k]"},
               trace),
        linear(from.keys, weights.key,
               {.input = from.keys_name, .weight = labels.key_weights, .bias = labels.key_bias, .output = labels.key},
               trace),
        linear(from.values, weights.value,
               {.input = from.values_name,
                .weight = labels.value_weights,
                .bias = labels.value_bias,
                .output = labels.value},
               trace)};
}

/// Which columns of a packed tensor are a head's.
struct Columns {
    std::string_view packed; ///< the tensor's name
    std::size_t begin, end;

    std::string of(std::string_view name) const
    {
        return std::string(name) + "[..., " + std::to_string(begin) + ":" + std::to_string(end) + "]";
    }
};

template <Sequence T>
Columns columns_of(std::string_view packed_name, const T& packed, std::size_t head, std::size_t heads)
{
    const std::size_t width = packed.shape(rows<T> + 1) / heads;
    return {packed_name, head * width, (head + 1) * width};
}

template <Sequence T>
T share(const Trace& trace, std::string_view step, const T& packed, const Columns& of_head)
{
    return trace(
        step, [&] { return of_head.of(of_head.packed); }, columns(packed, of_head.begin, of_head.end));
}

/// A head's share of queries or keys, turned by their places where heads go by those.
template <Sequence T>
T placed_share(const Trace& trace, std::string_view scope, std::string_view step, const T& packed,
               const Columns& of_head, const MultiHeadOptions& options)
{
    if (options.positions != HeadPositions::rotary)
        return share(trace, step, packed, of_head);
    const Trace turning = trace.scope(scope);
    const T straight = share(turning, "x[(b,) n, d]", packed, of_head);
    return trace(
        step, [&] { return std::string(scope) + ".output"; }, rotary(straight, options.rotary, turning));
}

/// What a head finds in the cache, with what is new behind it.
Matrix continued(const Trace& trace, std::string_view step, std::string_view past_name, const Matrix& past,
                 std::string_view added_name, const Matrix& added, const Columns& of_head)
{
    return trace(
        step, [&] { return "concat(" + of_head.of(past_name) + ", " + std::string(added_name) + ", axis=0)"; },
        concat_rows(columns(past, of_head.begin, of_head.end), added));
}

/// One of several heads: its context and weights, and the keys and values that it attended to.
template <Sequence T>
struct Head {
    AttentionOf<T> attention;
    T keys, values;
};

/// Scaled dot-product attention on a head's share of the features.
template <Sequence T>
Head<T> attend_as(std::size_t head, const PackedHeadsOf<T>& packed, const KeyValueCache* past,
                  const MultiHeadOptions& options, const Trace& trace)
{
    const std::size_t groups = key_value_heads(options), group = head / (options.heads / groups);
    const Columns of_keys = columns_of("key", packed.key, group, groups);
    const Columns of_values = columns_of("value", packed.value, group, groups);
    const T queries = placed_share(trace, "rotary_query", "queries[(b,) n, d_k]", packed.query,
                                   columns_of("query", packed.query, head, options.heads), options);
    T keys = placed_share(trace, "rotary_key", past == nullptr ? "keys[(b,) m, d_k]" : "new_keys[n, d_k]", packed.key,
                          of_keys, options);
    if constexpr (std::same_as<T, Matrix>)
        if (past != nullptr)
            keys = continued(trace, "keys[m, d_k]", "past_keys", past->keys, "new_keys", keys, of_keys);
    T values = share(trace, past == nullptr ? "values[(b,) m, d_v]" : "new_values[n, d_v]", packed.value, of_values);
    if constexpr (std::same_as<T, Matrix>)
        if (past != nullptr)
            values = continued(trace, "values[m, d_v]", "past_values", past->values, "new_values", values, of_values);

    AttentionOptions of_head{.mask = options.mask, .bias = options.bias, .scale = options.scale};
    if (options.positions == HeadPositions::alibi)
        of_head.bias =
            alibi_bias(queries.shape(rows<T>), keys.shape(rows<T>), alibi_slopes(options.heads)(head), trace);
    AttentionOf<T> attention = scaled_dot_product_attention(queries, keys, values, of_head, trace);
    return {std::move(attention), std::move(keys), std::move(values)};
}

/// What the heads of a run found, and what each key/value head made available to later tokens.
template <Sequence T>
struct Attended {
    MultiHeadOf<T> found;
    std::vector<T> keys, values; ///< of each key/value head
};

/// "concat(head.0.context, head.1.context, axis=-1)": of every head, or of the first of each group.
std::string merging(std::string_view step, std::size_t heads, std::size_t stride = 1)
{
    std::string parts;
    for (std::size_t head = 0; head < heads; head += stride)
        parts += "head." + std::to_string(head) + "." + std::string(step) + ", ";
    return "concat(" + parts + "axis=-1)";
}

/// Heads side by side, and what they found merged.
/// @param past  what stands in front of the packed keys and values; null where nothing does
template <Sequence T>
Attended<T> by_heads(const PackedHeadsOf<T>& packed, const KeyValueCache* past,
                     const std::optional<LinearWeights>& output, const MultiHeadOptions& options, const Trace& trace)
{
    // Each head attends on its share of the features, under one mask.
    if (options.mask)
        std::visit([&](const auto& mask) { trace.shared_input("mask[(b,) n, m]", mask); }, *options.mask);
    if (options.bias)
        trace.shared_input("bias[n, m]", *options.bias);
    Attended<T> result;
    std::vector<T> contexts;
    for (std::size_t head = 0; head < options.heads; ++head) {
        const Trace of_head = trace.scope("head", head);
        auto [attention, keys, values] = attend_as(head, packed, past, options, of_head);
        contexts.push_back(std::move(attention.context));
        result.found.weights.push_back(std::move(attention.weights));
        if (head % (options.heads / key_value_heads(options)) == 0) { // the others of its group have the same
            result.keys.push_back(std::move(keys));
            result.values.push_back(std::move(values));
        }
    }
    const T merged = trace(
        "merged[(b,) n, h_d_v]", [&] { return merging("context", options.heads); }, concat_columns(contexts));

    // W^o lets what one head found reach every feature.
    result.found.output = output ? linear(merged, *output,
                                          {.input = "merged",
                                           .weight = "output_weights[h_d_v, d_model]",
                                           .bias = "output_bias[d_model]",
                                           .output = "output[(b,) n, d_model]"},
                                          trace)
                                 : trace("output[(b,) n, h_d_v]", "merged", merged);
    return result;
}

template <Sequence T>
Attended<T> attend(const Sources<T>& from, const MultiHeadWeights& weights, const MultiHeadOptions& options,
                   const Trace& caller)
{
    expect_fit(from, weights, options);
    const Trace trace = caller.module("multi_head_attention", [&] { return describe(options); });
    trace.input("x[(b,) n, d_model]", from.queries);
    if (from.keys_name == "memory")
        trace.input("memory[(b,) m, d_memory]", from.keys);
    if (from.values_name == "value_memory")
        trace.input("value_memory[(b,) m, d_value]", from.values);
    const bool is_grouped = key_value_heads(options) != options.heads;
    if (from.past != nullptr) {
        trace.input(is_grouped ? "past_keys[past, g_d_k]" : "past_keys[past, h_d_k]", from.past->keys);
        trace.input(is_grouped ? "past_values[past, g_d_v]" : "past_values[past, h_d_v]", from.past->values);
    }

    // All heads' queries, keys and values come out of three products.
    return by_heads(project(from, weights, is_grouped, trace), from.past, weights.output, options, trace);
}

template <Sequence T>
MultiHeadOf<T> attend_packed(const PackedHeadsOf<T>& packed, const std::optional<LinearWeights>& output,
                             const MultiHeadOptions& options, const Trace& caller)
{
    expect_fit(packed, output, options);
    const Trace trace = caller.module("multi_head_attention", [&] { return describe(options); });
    return by_heads(packed, nullptr, output, options, trace).found;
}

} // namespace

MultiHead multi_head_attention(const Matrix& x, const MultiHeadWeights& weights, const MultiHeadOptions& options,
                               const Trace& trace)
{
    return attend<Matrix>({x, x, x, "x", "x"}, weights, options, trace).found;
}

BatchMultiHead multi_head_attention(const Tensor3& x, const MultiHeadWeights& weights, const MultiHeadOptions& options,
                                    const Trace& trace)
{
    return attend<Tensor3>({x, x, x, "x", "x"}, weights, options, trace).found;
}

MultiHead multi_head_attention(const Matrix& x, const Matrix& memory, const MultiHeadWeights& weights,
                               const MultiHeadOptions& options, const Trace& trace)
{
    return attend<Matrix>({x, memory, memory, "memory", "memory"}, weights, options, trace).found;
}

BatchMultiHead multi_head_attention(const Tensor3& x, const Tensor3& memory, const MultiHeadWeights& weights,
                                    const MultiHeadOptions& options, const Trace& trace)
{
    return attend<Tensor3>({x, memory, memory, "memory", "memory"}, weights, options, trace).found;
}

MultiHead multi_head_attention(const Matrix& x, const Matrix& memory, const Matrix& value_memory,
                               const MultiHeadWeights& weights, const MultiHeadOptions& options, const Trace& trace)
{
    return attend<Matrix>({x, memory, value_memory, "memory", "value_memory"}, weights, options, trace).found;
}

BatchMultiHead multi_head_attention(const Tensor3& x, const Tensor3& memory, const Tensor3& value_memory,
                                    const MultiHeadWeights& weights, const MultiHeadOptions& options,
                                    const Trace& trace)
{
    return attend<Tensor3>({x, memory, value_memory, "memory", "value_memory"}, weights, options, trace).found;
}

MultiHead attend_by_heads(const PackedHeads& packed, const std::optional<LinearWeights>& output,
                          const MultiHeadOptions& options, const Trace& trace)
{
    return attend_packed(packed, output, options, trace);
}

BatchMultiHead attend_by_heads(const BatchPackedHeads& packed, const std::optional<LinearWeights>& output,
                               const MultiHeadOptions& options, const Trace& trace)
{
    return attend_packed(packed, output, options, trace);
}

CachedMultiHead cached_self_attention(const Matrix& x, const std::optional<KeyValueCache>& past,
                                      const MultiHeadWeights& weights, const MultiHeadOptions& options,
                                      const Trace& trace)
{
    MultiHeadOptions placed = options;
    if (past)
        placed.rotary.first += past->keys.shape(0);
    Attended<Matrix> attended = attend<Matrix>({x, x, x, "x", "x", past ? &*past : nullptr}, weights, placed, trace);

    // What later tokens will look at.
    const Trace named = trace.module("cached_self_attention", [&] { return describe(options); });
    const bool is_grouped = key_value_heads(options) != options.heads;
    const auto of_groups = [&](std::string_view step) {
        return merging(step, options.heads, options.heads / key_value_heads(options));
    };
    Matrix keys = named(
        is_grouped ? "cache_keys[m, g_d_k]" : "cache_keys[m, h_d_k]", [&] { return of_groups("keys"); },
        concat_columns(attended.keys));
    Matrix values = named(
        is_grouped ? "cache_values[m, g_d_v]" : "cache_values[m, h_d_v]", [&] { return of_groups("values"); },
        concat_columns(attended.values));
    return {std::move(attended.found.output), std::move(attended.found.weights), {std::move(keys), std::move(values)}};
}

} // namespace attn
