#include "attn/models/keras_attention.hpp"

#include "attn/ops/concat.hpp"
#include "attn/ops/matmul.hpp"
#include "attn/ops/softmax.hpp"
#include "attn/shape.hpp"

#include <cmath>
#include <string>
#include <utility>

namespace attn {
namespace {

template <Sequence T>
constexpr std::size_t rows = std::same_as<T, Matrix> ? 0 : 1; // the axis of tokens; features follow

/// Three sequences and what is known of them.
template <Sequence T>
struct Given {
    const T& x;
    const T& memory;
    const T& value_memory;
    const KerasAttentionWeights& weights;
    const KerasMasksOf<T>& masks;
    const KerasAttentionOptions& options;
};

void expect_shared_out(std::string_view role, const Matrix& weight, std::size_t heads)
{
    if (heads == 0 || weight.shape(1) == 0 || weight.shape(1) % heads != 0)
        throw ShapeError("keras_attention: " + std::string(role) + " weights " + to_string(shape_of(weight)) +
                         " can't be shared out evenly to " + std::to_string(heads) + " heads");
}

template <Sequence T>
void expect_mask(std::string_view role, const PerToken<T>& mask, std::string_view tokens_role, const T& tokens)
{
    if constexpr (std::same_as<T, Tensor3>)
        expect_agreement("keras_attention", "b", {role, mask, 0}, {tokens_role, tokens, 0});
    expect_agreement("keras_attention", role == "value mask" ? "m" : "n", {role, mask, rows<T>},
                     {tokens_role, tokens, rows<T>});
}

template <Sequence T>
void expect_fit(const Given<T>& given)
{
    constexpr std::string_view function = "keras_attention";
    const auto& [x, memory, value_memory, weights, masks, options] = given;
    expect_agreement(function, "d_model", {"x", x, rows<T> + 1}, {"query weights", weights.query, 0});
    expect_agreement(function, "d_memory", {"memory", memory, rows<T> + 1}, {"key weights", weights.key, 0});
    expect_agreement(function, "d_value", {"value_memory", value_memory, rows<T> + 1},
                     {"value weights", weights.value, 0});
    expect_agreement(function, "h d_k", {"query weights", weights.query, 1}, {"key weights", weights.key, 1});
    expect_agreement(function, "m", {"memory", memory, rows<T>}, {"value_memory", value_memory, rows<T>});
    if constexpr (std::same_as<T, Tensor3>) {
        expect_agreement(function, "b", {"x", x, 0}, {"memory", memory, 0});
        expect_agreement(function, "b", {"memory", memory, 0}, {"value_memory", value_memory, 0});
    }
    expect_shared_out("query", weights.query, options.heads);
    expect_shared_out("value", weights.value, options.heads);
    if (masks.values)
        expect_mask<T>("value mask", *masks.values, "memory", memory);
    if (masks.queries)
        expect_mask<T>("query mask", *masks.queries, "x", x);
}

/// A head's share of the features.
template <Sequence T>
T share(const Trace& trace, std::string_view step, std::string_view name, const T& packed, std::size_t head,
        std::size_t heads)
{
    const std::size_t width = packed.shape(rows<T> + 1) / heads, begin = head * width, end = begin + width;
    return trace(
        step, [&] { return std::string(name) + "[..., " + std::to_string(begin) + ":" + std::to_string(end) + "]"; },
        columns(packed, begin, end));
}

/// Scores of each sequence's n by m pairs, one after the other in storage.
template <Sequence T>
T without_padding(const T& scores, const PerToken<T>& mask, double penalty)
{
    const std::size_t n = scores.shape(rows<T>), m = scores.shape(rows<T> + 1);
    T left = scores;
    for (std::size_t i = 0; i < left.size(); ++i)
        left.data()[i] -= (1 - mask.data()[i / (n * m) * m + i % m]) * penalty;
    return left;
}

template <Sequence T>
T without_later(const T& scores, double penalty)
{
    const std::size_t n = scores.shape(rows<T>), m = scores.shape(rows<T> + 1);
    T left = scores;
    for (std::size_t i = 0; i < left.size(); ++i)
        left.data()[i] -= i % m > i / m % n ? penalty : 0;
    return left;
}

template <Sequence T>
T times_mask(const T& merged, const PerToken<T>& mask)
{
    T kept = merged;
    for (std::size_t i = 0; i < kept.size(); ++i)
        kept.data()[i] *= mask.data()[i / merged.shape(rows<T> + 1)];
    return kept;
}

/// What is left of the scores, and the step that it is called.
template <Sequence T>
std::pair<T, std::string_view> penalize(T scaled, const Given<T>& given, const Trace& trace)
{
    const std::string penalty = exact_text(given.options.penalty);
    std::string_view name = "scaled";
    if (given.masks.values) {
        scaled = trace(
            "value_masked[(b,) n, m]", [&] { return "scaled - (1 - value_mask[..., None, :]) * " + penalty; },
            without_padding(scaled, *given.masks.values, given.options.penalty));
        name = "value_masked";
    }
    if (given.options.mask_right) {
        const auto formula = [&] {
            return std::string(name) + " - (arange(" + std::to_string(given.memory.shape(rows<T>)) + ") > arange(" +
                   std::to_string(given.x.shape(rows<T>)) + ")[:, None]) * " + penalty;
        };
        scaled = trace("right_masked[(b,) n, m]", formula, without_later(scaled, given.options.penalty));
        name = "right_masked";
    }
    return {std::move(scaled), name};
}

StepOptions describe(const KerasAttentionOptions& options)
{
    return {{"heads", std::to_string(options.heads)},
            {"mask_right", options.mask_right ? "true" : "false"},
            {"penalty", exact_text(options.penalty)}};
}

template <Sequence T>
MultiHeadOf<T> attend(const Given<T>& given, const Trace& caller)
{
    expect_fit(given);
    const auto& [x, memory, value_memory, weights, masks, options] = given;
    const Trace trace = caller.module("keras_attention", [&given] { return describe(given.options); });
    trace.input("x[(b,) n, d_model]", x);
    trace.input("memory[(b,) m, d_memory]", memory);
    trace.input("value_memory[(b,) m, d_value]", value_memory);

    // All heads' queries, keys and values come out of three products.
    const T query =
        linear(x, {weights.query},
               {.input = "x", .weight = "query_weights[d_model, h_d_k]", .output = "query[(b,) n, h_d_k]"}, trace);
    const T key =
        linear(memory, {weights.key},
               {.input = "memory", .weight = "key_weights[d_memory, h_d_k]", .output = "key[(b,) m, h_d_k]"}, trace);
    const T value = linear(
        value_memory, {weights.value},
        {.input = "value_memory", .weight = "value_weights[d_value, h_d_v]", .output = "value[(b,) m, h_d_v]"}, trace);
    if (masks.values)
        trace.input("value_mask[(b,) m]", *masks.values);

    MultiHeadOf<T> result;
    std::vector<T> contexts;
    std::string merging = "concat(";
    for (std::size_t head = 0; head < options.heads; ++head) {
        const Trace inside = trace.scope("head", head);
        const T queries = share(inside, "queries[(b,) n, d_k]", "query", query, head, options.heads);
        const T keys = share(inside, "keys[(b,) m, d_k]", "key", key, head, options.heads);
        const T values = share(inside, "values[(b,) m, d_v]", "value", value, head, options.heads);
        const T scores = inside("scores[(b,) n, m]", "queries @ keys.T", matmul(queries, transpose(keys)));
        const double root = std::sqrt(static_cast<double>(keys.shape(rows<T> + 1)));
        const T scaled = inside("scaled[(b,) n, m]", "scores / sqrt(keys.shape[-1])", T(scores / root));

        // What may not be looked at loses a large number, which softmax then makes a weight of zero.
        const std::pair<T, std::string_view> left = penalize(scaled, given, inside);
        const auto normalizing = [&] { return "softmax(" + std::string(left.second) + ")"; };
        result.weights.push_back(inside("weights[(b,) n, m]", normalizing, softmax(left.first)));
        contexts.push_back(inside("context[(b,) n, d_v]", "weights @ values", matmul(result.weights.back(), values)));
        merging += "head." + std::to_string(head) + ".context, ";
    }
    const T merged = trace("merged[(b,) n, h_d_v]", merging + "axis=-1)", concat_columns(contexts));
    if (!masks.queries) {
        result.output = trace("output[(b,) n, h_d_v]", "merged", merged);
        return result;
    }

    // What queries of padding found is thrown away.
    trace.input("query_mask[(b,) n]", *masks.queries);
    result.output =
        trace("output[(b,) n, h_d_v]", "merged * query_mask[..., None]", times_mask(merged, *masks.queries));
    return result;
}

} // namespace

MultiHead keras_attention(const Matrix& x, const Matrix& memory, const Matrix& value_memory,
                          const KerasAttentionWeights& weights, const KerasMasks& masks,
                          const KerasAttentionOptions& options, const Trace& trace)
{
    return attend<Matrix>({x, memory, value_memory, weights, masks, options}, trace);
}

BatchMultiHead keras_attention(const Tensor3& x, const Tensor3& memory, const Tensor3& value_memory,
                               const KerasAttentionWeights& weights, const BatchKerasMasks& masks,
                               const KerasAttentionOptions& options, const Trace& trace)
{
    return attend<Tensor3>({x, memory, value_memory, weights, masks, options}, trace);
}

} // namespace attn
