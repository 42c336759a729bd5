#include "attn/reference/layers/talking_heads.hpp"

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
        throw Error(function, ": it takes plain maps, without norms of queries and keys or sinks, and without a gate");
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

/// Each head in its proportion, summed.
template <Sequence T>
Term<T> mix(const std::vector<Term<T>>& heads, const Term<Matrix>& mixture, std::size_t into)
{
    Term sum = heads.front() * entry(mixture, 0, into);
    for (std::size_t i = 1; i < heads.size(); ++i)
        sum = sum + heads[i] * entry(mixture, i, into);
    return sum;
}

/// A mixture of all heads, which all are named alike: as the scope around them names them.
template <Sequence T>
Term<T> mixed_step(std::string_view label, const Term<T>& mixture, const Trace& head, const Trace& around)
{
    return head(
        label, [&] { return around.say(mixture.wording()); }, mixture);
}

/// The softmax of one mixture of all heads' scores.
template <Sequence T>
Term<T> weigh(const std::vector<Term<T>>& scaled, const Term<Matrix>& mixture, std::size_t into,
              const OptionalMask& mask, const Trace& trace)
{
    const Trace head = trace.scope("head", into);
    Term mixed = mixed_step("mixed_scores[(b,) n, m]", mix(scaled, mixture, into), head, trace);
    return attention_weights(std::move(mixed), {.mask = of_head("mask", mask, into, mixture.shape(1), head)}, head);
}

} // namespace

template <Sequence T>
MultiHeadOf<T> talking_heads_attention(const T& x, const TalkingHeadsWeights& learned,
                                       const TalkingHeadsOptions& options, const Trace& caller)
{
    expect_fit(Sources<T>(x), learned);
    const Trace trace = caller.module(function, [&] { return describe(learned, options); });
    const NamedSources from = name_sources(Sources<T>(x), trace);
    const std::size_t n = x.shape(token_axis<T>), key_heads = learned.scores.shape(0);
    const std::size_t heads = learned.scores.shape(1), value_heads = learned.weights.shape(1);

    // Make the queries, keys and values of all heads by three products.
    const PackedHeads packed = project(from, learned.maps, {}, trace);
    const Term score_mixture = trace.input("talking_scores[h_k, h]", Term(learned.scores));
    const Term weight_mixture = trace.input("talking_weights[h, h_v]", Term(learned.weights));
    const auto mask = join_masks(n, n, {.given = options.mask, .causal = options.causal}, trace);

    // Mix the scores of all heads before each softmax.
    std::vector<Term<Value<T>>> scaled, weights, mixed_weights, contexts;
    for (std::size_t i = 0; i < key_heads; ++i)
        scaled.push_back(scaled_scores(packed, i, key_heads, options.scale, trace.scope("head", i)));
    for (std::size_t i = 0; i < heads; ++i)
        weights.push_back(weigh(scaled, score_mixture, i, mask, trace));

    // Mix the weights of all heads before each average of values.
    for (std::size_t i = 0; i < value_heads; ++i) {
        const Trace head = trace.scope("head", i);
        mixed_weights.push_back(mixed_step("mixed_weights[(b,) n, m]", mix(weights, weight_mixture, i), head, trace));
        const Term values = head("values[(b,) m, d_v]", of_head(packed.value, i, value_heads));
        contexts.push_back(head("context[(b,) n, d_v]", matmul(mixed_weights.back(), values)));
    }
    const Term merged = trace("merged[(b,) n, h_d_v]", concat(contexts, -1));
    return {T(map_output(merged, learned.maps.output, trace)), all_as<T>(std::move(mixed_weights))};
}

template decltype(talking_heads_attention<Matrix>) talking_heads_attention<Matrix>;
template decltype(talking_heads_attention<Tensor3>) talking_heads_attention<Tensor3>;

} // namespace attn
