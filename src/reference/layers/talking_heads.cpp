#include "attn/reference/layers/talking_heads.hpp"

#include "attn/reference/ops/matmul.hpp"
#include "attn/reference/ops/softmax.hpp"

#include "heads.hpp"

namespace attn {
namespace {

constexpr std::string_view function = "talking_heads_attention";

template <Sequence T>
void expect_fit(const Sources<T>& from, const TalkingHeadsWeights& weights)
{
    const MultiHeadWeights& maps = weights.maps;
    expect_projectable(function, from, maps);
    expect_agreement(function, "h d_k", {"query weights", maps.query.weight, 1}, {"key weights", maps.key.weight, 1});
    if (!is_plain(maps, HeadPositions::none))
        throw Error(std::string(function) +
                    ": it takes plain maps, without norms of queries and keys or sinks, and without a gate");
    expect_agreement(function, "h", {"talking_scores", weights.scores, 1}, {"talking_weights", weights.weights, 0});
    if (maps.output)
        expect_agreement(function, "h d_v", {"value weights", maps.value.weight, 1},
                         {"output weights", maps.output->weight, 0});
    expect_even_split(function, "query weights", shape_of(maps.query.weight), weights.scores.shape(0));
    expect_even_split(function, "value weights", shape_of(maps.value.weight), weights.weights.shape(1));
}

StepOptions describe(const TalkingHeadsWeights& weights, const TalkingHeadsOptions& options)
{
    return {{"key_heads", std::to_string(weights.scores.shape(0))},
            {"heads", std::to_string(weights.scores.shape(1))},
            {"value_heads", std::to_string(weights.weights.shape(1))},
            {"mask", describe(options.mask, options.causal)},
            {"scale", describe_scale(options.scale)}};
}

/// Scaled scores of each head.
template <Sequence T>
std::vector<T> compare(const PackedHeads<T>& packed, std::size_t heads, const TalkingHeadsOptions& options,
                       const Trace& trace)
{
    const double scale = scale_factor(options.scale, packed.query.shape(feature_axis<T>) / heads);
    const auto scaling = [&] { return scale_formula(options.scale); };
    std::vector<T> result;
    for (std::size_t i = 0; i < heads; ++i) {
        const Trace head = trace.scope("head", i);
        const T queries = split_head("queries[(b,) n, d_k]", "query", packed.query, i, heads, head);
        const T keys = split_head("keys[(b,) m, d_k]", "key", packed.key, i, heads, head);
        const T scores = head("scores[(b,) n, m]", "queries @ keys.T", matmul(queries, transpose(keys)));
        result.push_back(head("scaled[(b,) n, m]", scaling, T(scores * scale)));
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

/// The softmax of one mixture of all heads' scores.
template <Sequence T>
T weigh(const std::vector<T>& scaled, const Matrix& mixture, std::size_t into, const OptionalMask& mask,
        const Trace& head)
{
    T mixed = head(
        "mixed_scores[(b,) n, m]", [&] { return mixing("scaled", "talking_scores", scaled.size(), into); },
        mix(scaled, mixture, into));
    if (!mask)
        return head("weights[(b,) n, m]", "softmax(mixed_scores)", softmax(std::move(mixed)));
    T masked = head("masked[(b,) n, m]", "where(mask, mixed_scores, -inf)",
                    apply_mask(*of_head("mask", mask, into, mixture.shape(1), head), std::move(mixed), minus_infinity));
    return head("weights[(b,) n, m]", "softmax(masked)", softmax(std::move(masked)));
}

} // namespace

template <Sequence T>
MultiHeadOf<T> talking_heads_attention(const T& x, const TalkingHeadsWeights& learned,
                                       const TalkingHeadsOptions& options, const Trace& caller)
{
    expect_fit(Sources<T>(x), learned);
    const Trace trace = caller.module(function, [&] { return describe(learned, options); });
    const Sources<T> from = name_sources(Sources<T>(x), trace);
    const std::size_t n = x.shape(token_axis<T>), key_heads = learned.scores.shape(0);
    const std::size_t heads = learned.scores.shape(1), value_heads = learned.weights.shape(1);

    // Make the queries, keys and values of all heads by three products.
    const PackedHeads<T> packed = project(from, learned.maps, {}, trace);
    const Matrix& score_mixture = trace.input("talking_scores[h_k, h]", learned.scores);
    const Matrix& weight_mixture = trace.input("talking_weights[h, h_v]", learned.weights);
    const auto mask = join_masks(n, n, {.given = options.mask, .causal = options.causal}, trace);

    // Mix the scores of all heads before each softmax.
    const std::vector<T> scaled = compare(packed, key_heads, options, trace);
    std::vector<T> weights;
    for (std::size_t i = 0; i < heads; ++i)
        weights.push_back(weigh(scaled, score_mixture, i, mask, trace.scope("head", i)));

    // Mix the weights of all heads before each average of values.
    MultiHeadOf<T> result;
    std::vector<T> contexts;
    for (std::size_t i = 0; i < value_heads; ++i) {
        const Trace head = trace.scope("head", i);
        result.weights.push_back(head(
            "mixed_weights[(b,) n, m]", [&] { return mixing("weights", "talking_weights", heads, i); },
            mix(weights, weight_mixture, i)));
        const T values = split_head("values[(b,) m, d_v]", "value", packed.value, i, value_heads, head);
        contexts.push_back(
            head("context[(b,) n, d_v]", "mixed_weights @ values", matmul(result.weights.back(), values)));
    }
    const T merged = merge_heads(contexts, trace);
    result.output = map_output(merged, learned.maps.output, trace);
    return result;
}

template decltype(talking_heads_attention<Matrix>) talking_heads_attention<Matrix>;
template decltype(talking_heads_attention<Tensor3>) talking_heads_attention<Tensor3>;

} // namespace attn
