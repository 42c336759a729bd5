#include "attn/layers/talking_heads.hpp"

#include "attn/ops/concat.hpp"
#include "attn/ops/matmul.hpp"
#include "attn/ops/softmax.hpp"
#include "attn/shape.hpp"

#include <cmath>
#include <limits>
#include <string>

namespace attn {
namespace {

constexpr std::string_view function = "talking_heads_attention";

template <Sequence T>
constexpr std::size_t rows = std::same_as<T, Matrix> ? 0 : 1; // the axis of tokens; features follow

void expect_shared_out(std::string_view role, const Matrix& weight, std::size_t heads)
{
    if (heads == 0 || weight.shape(1) == 0 || weight.shape(1) % heads != 0)
        throw ShapeError(std::string(function) + ": " + std::string(role) + " weights " + to_string(shape_of(weight)) +
                         " can't be shared out evenly to " + std::to_string(heads) + " heads");
}

template <Sequence T>
void expect_fit(const T& x, const TalkingHeadsWeights& weights)
{
    const MultiHeadWeights& maps = weights.maps;
    for (const auto& [role, map] :
         {std::pair{"query weights", &maps.query}, {"key weights", &maps.key}, {"value weights", &maps.value}})
        expect_agreement(function, "d_model", {"x", x, rows<T> + 1}, {role, map->weight, 0});
    expect_agreement(function, "h d_k", {"query weights", maps.query.weight, 1}, {"key weights", maps.key.weight, 1});
    expect_agreement(function, "h", {"talking_scores", weights.scores, 1}, {"talking_weights", weights.weights, 0});
    if (maps.output)
        expect_agreement(function, "h d_v", {"value weights", maps.value.weight, 1},
                         {"output weights", maps.output->weight, 0});
    expect_shared_out("query", maps.query.weight, weights.scores.shape(0));
    expect_shared_out("value", maps.value.weight, weights.weights.shape(1));
}

StepOptions describe(const TalkingHeadsWeights& weights, const TalkingHeadsOptions& options)
{
    return {{"key_heads", std::to_string(weights.scores.shape(0))},
            {"heads", std::to_string(weights.scores.shape(1))},
            {"value_heads", std::to_string(weights.weights.shape(1))},
            {"mask", options.mask ? "given" : "none"},
            {"scale", options.scale ? exact_text(*options.scale) : "1/sqrt(d_k)"}};
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

/// How each head compares queries with keys.
template <Sequence T>
std::vector<T> compare(const T& query, const T& key, std::size_t heads, const TalkingHeadsOptions& options,
                       const Trace& trace)
{
    const double d_k = static_cast<double>(query.shape(rows<T> + 1) / heads);
    const std::string scaling =
        options.scale ? "scores * " + exact_text(*options.scale) : "scores / sqrt(keys.shape[-1])";
    std::vector<T> result;
    for (std::size_t i = 0; i < heads; ++i) {
        const Trace head = trace.scope("head", i);
        const T queries = share(head, "queries[(b,) n, d_k]", "query", query, i, heads);
        const T keys = share(head, "keys[(b,) m, d_k]", "key", key, i, heads);
        const T scores = head("scores[(b,) n, m]", "queries @ keys.T", matmul(queries, transpose(keys)));
        result.push_back(head("scaled[(b,) n, m]", scaling, T(scores * options.scale.value_or(1 / std::sqrt(d_k)))));
    }
    return result;
}

/// "head.0.scaled * talking_scores[0, 1] + head.1.scaled * talking_scores[1, 1]"
std::string mixing(std::string_view part, std::string_view mixture, std::size_t heads, std::size_t into)
{
    std::string text;
    for (std::size_t i = 0; i < heads; ++i)
        text += (i == 0 ? "head." : " + head.") + std::to_string(i) + "." + std::string(part) + " * " +
                std::string(mixture) + "[" + std::to_string(i) + ", " + std::to_string(into) + "]";
    return text;
}

/// Each head in its proportion, summed.
template <Sequence T>
T mix(const std::vector<T>& heads, const Matrix& mixture, std::size_t into)
{
    T sum = heads.front() * mixture(0, into);
    for (std::size_t i = 1; i < heads.size(); ++i)
        sum += heads[i] * mixture(i, into);
    return sum;
}

/// One softmax of what all heads' comparisons say, mixed for it.
template <Sequence T>
T weigh(const std::vector<T>& scaled, const Matrix& mixture, std::size_t into, const std::optional<AnyMask>& mask,
        const Trace& head)
{
    const T mixed = head(
        "mixed_scores[(b,) n, m]", [&] { return mixing("scaled", "talking_scores", scaled.size(), into); },
        mix(scaled, mixture, into));
    if (!mask)
        return head("weights[(b,) n, m]", "softmax(mixed_scores)", softmax(mixed));
    const T masked = head("masked[(b,) n, m]", "where(mask, mixed_scores, -inf)",
                          apply_mask(*mask, mixed, -std::numeric_limits<double>::infinity()));
    return head("weights[(b,) n, m]", "softmax(masked)", softmax(masked));
}

std::string merging(std::size_t heads)
{
    std::string parts;
    for (std::size_t head = 0; head < heads; ++head)
        parts += "head." + std::to_string(head) + ".context, ";
    return "concat(" + parts + "axis=-1)";
}

template <Sequence T>
MultiHeadOf<T> attend(const T& x, const TalkingHeadsWeights& learned, const TalkingHeadsOptions& options,
                      const Trace& caller)
{
    expect_fit(x, learned);
    const MultiHeadWeights& maps = learned.maps;
    const std::size_t key_heads = learned.scores.shape(0), heads = learned.scores.shape(1);
    const std::size_t value_heads = learned.weights.shape(1);
    const Trace trace = caller.module(function, [&] { return describe(learned, options); });
    trace.input("x[(b,) n, d_model]", x);

    // All heads' queries, keys and values come out of three products.
    const T query = linear(x, maps.query,
                           {"x", "query_weights[d_model, h_d_k]", "query_bias[h_d_k]", "query[(b,) n, h_d_k]"}, trace);
    const T key =
        linear(x, maps.key, {"x", "key_weights[d_model, h_d_k]", "key_bias[h_d_k]", "key[(b,) m, h_d_k]"}, trace);
    const T value = linear(x, maps.value,
                           {"x", "value_weights[d_model, h_d_v]", "value_bias[h_d_v]", "value[(b,) m, h_d_v]"}, trace);
    trace.input("talking_scores[h_k, h]", learned.scores);
    trace.input("talking_weights[h, h_v]", learned.weights);
    if (options.mask)
        std::visit([&](const auto& mask) { trace.shared_input("mask[(b,) n, m]", mask); }, *options.mask);

    // Every head compares, and every softmax hears of all of them.
    const std::vector<T> scaled = compare(query, key, key_heads, options, trace);
    std::vector<T> weights;
    for (std::size_t head = 0; head < heads; ++head)
        weights.push_back(weigh(scaled, learned.scores, head, options.mask, trace.scope("head", head)));

    // Every head of values hears of every softmax.
    MultiHeadOf<T> result;
    std::vector<T> contexts;
    for (std::size_t into = 0; into < value_heads; ++into) {
        const Trace head = trace.scope("head", into);
        result.weights.push_back(head(
            "mixed_weights[(b,) n, m]", [&] { return mixing("weights", "talking_weights", heads, into); },
            mix(weights, learned.weights, into)));
        const T values = share(head, "values[(b,) m, d_v]", "value", value, into, value_heads);
        contexts.push_back(
            head("context[(b,) n, d_v]", "mixed_weights @ values", matmul(result.weights.back(), values)));
    }
    const T merged = trace(
        "merged[(b,) n, h_d_v]", [&] { return merging(value_heads); }, concat_columns(contexts));
    result.output =
        maps.output
            ? linear(merged, *maps.output,
                     {"merged", "output_weights[h_d_v, d_model]", "output_bias[d_model]", "output[(b,) n, d_model]"},
                     trace)
            : trace("output[(b,) n, h_d_v]", "merged", merged);
    return result;
}

} // namespace

MultiHead talking_heads_attention(const Matrix& x, const TalkingHeadsWeights& weights,
                                  const TalkingHeadsOptions& options, const Trace& trace)
{
    return attend(x, weights, options, trace);
}

BatchMultiHead talking_heads_attention(const Tensor3& x, const TalkingHeadsWeights& weights,
                                       const TalkingHeadsOptions& options, const Trace& trace)
{
    return attend(x, weights, options, trace);
}

} // namespace attn
