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
};

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

template <Sequence T>
void expect_fit(const Sources<T>& from, const MultiHeadWeights& weights, const MultiHeadOptions& options)
{
    constexpr std::string_view function = "multi_head_attention";
    expect_agreement(function, "d_model", {"x", from.queries, rows<T> + 1}, {"query weights", weights.query.weight, 0});
    expect_agreement(function, "its features", {from.keys_name, from.keys, rows<T> + 1},
                     {"key weights", weights.key.weight, 0});
    expect_agreement(function, "its features", {from.values_name, from.values, rows<T> + 1},
                     {"value weights", weights.value.weight, 0});
    expect_agreement(function, "h d_k", {"query weights", weights.query.weight, 1},
                     {"key weights", weights.key.weight, 1});
    expect_agreement(function, "m", {from.keys_name, from.keys, rows<T>}, {from.values_name, from.values, rows<T>});
    if (weights.output)
        expect_agreement(function, "h d_v", {"value weights", weights.value.weight, 1},
                         {"output weights", weights.output->weight, 0});
    expect_shared_out("query weights", weights.query.weight, options.heads);
    expect_shared_out("value weights", weights.value.weight, options.heads);
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
    expect_agreement(function, "h d_k", {"query", packed.query, rows<T> + 1}, {"key", packed.key, rows<T> + 1});
    expect_agreement(function, "m", {"key", packed.key, rows<T>}, {"value", packed.value, rows<T>});
    if (output)
        expect_agreement(function, "h d_v", {"value", packed.value, rows<T> + 1},
                         {"output weights", output->weight, 0});
    expect_shared_out("query", packed.query, options.heads);
    expect_shared_out("value", packed.value, options.heads);
    expect_one_bias(options);
}

StepOptions describe(const MultiHeadOptions& options)
{
    constexpr std::string_view positions[] = {"none", "rotary", "alibi"};
    return {{"heads", std::to_string(options.heads)},
            {"mask", options.mask ? "given" : "none"},
            {"bias", options.bias ? "given" : "none"},
            {"scale", options.scale ? exact_text(*options.scale) : "1/sqrt(d_k)"},
            {"positions", std::string(positions[static_cast<std::size_t>(options.positions)])}};
}

template <Sequence T>
PackedHeadsOf<T> project(const Sources<T>& from, const MultiHeadWeights& weights, const Trace& trace)
{
    const bool is_self = from.keys_name == "x";
    return {linear(from.queries, weights.query,
                   {.input = "x",
                    .weight = "query_weights[d_model, h_d_k]",
                    .bias = "query_bias[h_d_k]",
                    .output = "query[(b,) n, h_d_k]"},
                   trace),
            linear(from.keys, weights.key,
                   {.input = from.keys_name,
                    .weight = is_self ? "key_weights[d_model, h_d_k]" : "key_weights[d_memory, h_d_k]",
                    .bias = "key_bias[h_d_k]",
                    .output = "key[(b,) m, h_d_k]"},
                   trace),
            linear(from.values, weights.value,
                   {.input = from.values_name,
                    .weight = is_self                        ? "value_weights[d_model, h_d_v]"
                              : from.values_name == "memory" ? "value_weights[d_memory, h_d_v]"
                                                             : "value_weights[d_value, h_d_v]",
                    .bias = "value_bias[h_d_v]",
                    .output = "value[(b,) m, h_d_v]"},
                   trace)};
}

/// A head's share of a packed tensor.
template <Sequence T>
T share(const Trace& trace, std::string_view step, std::string_view packed_name, const T& packed, std::size_t head,
        std::size_t heads)
{
    const std::size_t width = packed.shape(rows<T> + 1) / heads;
    const std::size_t begin = head * width, end = begin + width;
    return trace(
        step,
        [&] { return std::string(packed_name) + "[..., " + std::to_string(begin) + ":" + std::to_string(end) + "]"; },
        columns(packed, begin, end));
}

/// A head's queries or keys, turned by their places.
template <Sequence T>
T turned_share(const Trace& trace, std::string_view scope, std::string_view step, std::string_view packed_name,
               const T& packed, std::size_t head, const MultiHeadOptions& options)
{
    const Trace turning = trace.scope(scope);
    const T straight = share(turning, "x[(b,) n, d]", packed_name, packed, head, options.heads);
    return trace(
        step, [&] { return std::string(scope) + ".output"; }, rotary(straight, options.rotary, turning));
}

/// One of several heads: scaled dot-product attention on its share of the features.
template <Sequence T>
AttentionOf<T> attend_as(std::size_t head, const PackedHeadsOf<T>& packed, const MultiHeadOptions& options,
                         const Trace& trace)
{
    const bool turns = options.positions == HeadPositions::rotary;
    const T queries =
        turns ? turned_share(trace, "rotary_query", "queries[(b,) n, d_k]", "query", packed.query, head, options)
              : share(trace, "queries[(b,) n, d_k]", "query", packed.query, head, options.heads);
    const T keys = turns ? turned_share(trace, "rotary_key", "keys[(b,) m, d_k]", "key", packed.key, head, options)
                         : share(trace, "keys[(b,) m, d_k]", "key", packed.key, head, options.heads);
    const T values = share(trace, "values[(b,) m, d_v]", "value", packed.value, head, options.heads);

    AttentionOptions of_head{.mask = options.mask, .bias = options.bias, .scale = options.scale};
    if (options.positions == HeadPositions::alibi)
        of_head.bias =
            alibi_bias(queries.shape(rows<T>), keys.shape(rows<T>), alibi_slopes(options.heads)(head), trace);
    return scaled_dot_product_attention(queries, keys, values, of_head, trace);
}

std::string merging(std::size_t heads)
{
    std::string parts;
    for (std::size_t head = 0; head < heads; ++head)
        parts += "head." + std::to_string(head) + ".context, ";
    return "concat(" + parts + "axis=-1)";
}

/// Heads side by side, and what they found merged.
template <Sequence T>
MultiHeadOf<T> by_heads(const PackedHeadsOf<T>& packed, const std::optional<LinearWeights>& output,
                        const MultiHeadOptions& options, const Trace& trace)
{
    // Each head attends on its share of the features, under one mask.
    if (options.mask)
        std::visit([&](const auto& mask) { trace.shared_input("mask[(b,) n, m]", mask); }, *options.mask);
    if (options.bias)
        trace.shared_input("bias[n, m]", *options.bias);
    MultiHeadOf<T> result;
    std::vector<T> contexts;
    for (std::size_t head = 0; head < options.heads; ++head) {
        AttentionOf<T> attention = attend_as(head, packed, options, trace.scope("head", head));
        contexts.push_back(std::move(attention.context));
        result.weights.push_back(std::move(attention.weights));
    }
    const T merged = trace(
        "merged[(b,) n, h_d_v]", [&] { return merging(options.heads); }, concat_columns(contexts));

    // W^o lets what one head found reach every feature.
    result.output = output ? linear(merged, *output,
                                    {.input = "merged",
                                     .weight = "output_weights[h_d_v, d_model]",
                                     .bias = "output_bias[d_model]",
                                     .output = "output[(b,) n, d_model]"},
                                    trace)
                           : trace("output[(b,) n, h_d_v]", "merged", merged);
    return result;
}

template <Sequence T>
MultiHeadOf<T> attend(const Sources<T>& from, const MultiHeadWeights& weights, const MultiHeadOptions& options,
                      const Trace& caller)
{
    expect_fit(from, weights, options);
    const Trace trace = caller.module("multi_head_attention", [&] { return describe(options); });
    trace.input("x[(b,) n, d_model]", from.queries);
    if (from.keys_name == "memory")
        trace.input("memory[(b,) m, d_memory]", from.keys);
    if (from.values_name == "value_memory")
        trace.input("value_memory[(b,) m, d_value]", from.values);

    // All heads' queries, keys and values come out of three products.
    return by_heads(project(from, weights, trace), weights.output, options, trace);
}

template <Sequence T>
MultiHeadOf<T> attend_packed(const PackedHeadsOf<T>& packed, const std::optional<LinearWeights>& output,
                             const MultiHeadOptions& options, const Trace& caller)
{
    expect_fit(packed, output, options);
    return by_heads(packed, output, options, caller.module("multi_head_attention", [&] { return describe(options); }));
}

} // namespace

MultiHead multi_head_attention(const Matrix& x, const MultiHeadWeights& weights, const MultiHeadOptions& options,
                               const Trace& trace)
{
    return attend<Matrix>({x, x, x, "x", "x"}, weights, options, trace);
}

BatchMultiHead multi_head_attention(const Tensor3& x, const MultiHeadWeights& weights, const MultiHeadOptions& options,
                                    const Trace& trace)
{
    return attend<Tensor3>({x, x, x, "x", "x"}, weights, options, trace);
}

MultiHead multi_head_attention(const Matrix& x, const Matrix& memory, const MultiHeadWeights& weights,
                               const MultiHeadOptions& options, const Trace& trace)
{
    return attend<Matrix>({x, memory, memory, "memory", "memory"}, weights, options, trace);
}

BatchMultiHead multi_head_attention(const Tensor3& x, const Tensor3& memory, const MultiHeadWeights& weights,
                                    const MultiHeadOptions& options, const Trace& trace)
{
    return attend<Tensor3>({x, memory, memory, "memory", "memory"}, weights, options, trace);
}

MultiHead multi_head_attention(const Matrix& x, const Matrix& memory, const Matrix& value_memory,
                               const MultiHeadWeights& weights, const MultiHeadOptions& options, const Trace& trace)
{
    return attend<Matrix>({x, memory, value_memory, "memory", "value_memory"}, weights, options, trace);
}

BatchMultiHead multi_head_attention(const Tensor3& x, const Tensor3& memory, const Tensor3& value_memory,
                                    const MultiHeadWeights& weights, const MultiHeadOptions& options,
                                    const Trace& trace)
{
    return attend<Tensor3>({x, memory, value_memory, "memory", "value_memory"}, weights, options, trace);
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

} // namespace attn
