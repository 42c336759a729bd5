#include "attn/reference/layers/multi_head.hpp"

#include "heads.hpp"
#include "pairs.hpp"

#include "attn/core/choices.hpp"

#include <cmath>

namespace attn {
namespace {

constexpr Choice<HeadPositions> head_positions[] = {
    {HeadPositions::none, "none"}, {HeadPositions::rotary, "rotary"}, {HeadPositions::alibi, "alibi"}};

} // namespace

std::string_view name_of(HeadPositions positions) { return row_for<head_positions>(positions).name; }

std::size_t key_value_heads(const MultiHeadWeights& weights, std::size_t heads)
{
    const Matrix& query = weights.query.weight;
    const Matrix& key = weights.key.weight;
    const std::size_t d_k = heads == 0 ? 0 : query.shape(1) / heads;
    if (d_k == 0 || query.shape(1) % heads != 0 || key.shape(1) == 0 || key.shape(1) % d_k != 0)
        throw ShapeError(
            "attention: query weights ", shape_of(query), " of ", heads, " heads and key weights ", shape_of(key),
            " do not make heads of one size: expected columns that are a multiple of d_k, those of a head");
    return key.shape(1) / d_k;
}

Groups expect_groups(std::string_view caller, const MultiHeadWeights& weights, const MultiHeadOptions& options)
{
    const Matrix &query = weights.query.weight, &value = weights.value.weight;
    expect_even_split(caller, "query weights", shape_of(query), options.heads);
    const Groups groups{options.heads, key_value_heads(weights, options.heads)};
    if (groups.heads % groups.groups != 0)
        throw ShapeError(caller, ": ", groups.heads, " heads can't be divided evenly among ", groups.groups,
                         " key/value heads");
    expect_even_split(caller, "value weights", shape_of(value), groups.groups);
    if (weights.output && !groups.is_grouped())
        expect_agreement(caller, "h d_v", {"value weights", value, 1}, {"output weights", weights.output->weight, 0});
    if (weights.output && value.shape(1) * groups.heads != weights.output->weight.shape(0) * groups.groups)
        throw ShapeError(caller, ": value weights ", shape_of(value), " of ", groups.groups,
                         " key/value heads and output weights ", shape_of(weights.output->weight), " of ", groups.heads,
                         " heads must agree in d_v, the features of one head");
    if (weights.gate) {
        const Matrix& gate = weights.gate->weight;
        expect_agreement(caller, "d_model", {"query weights", query, 0}, {"gate weights", gate, 0});
        if (gate.shape(1) * groups.groups != value.shape(1) * groups.heads)
            throw ShapeError(caller, ": gate weights ", shape_of(gate),
                             " do not fit, expected a column for each of the ",
                             value.shape(1) / groups.groups * groups.heads, " features of ", groups.heads, " heads");
    }
    if (options.bias && options.positions == HeadPositions::alibi)
        throw Error(caller, ": ALiBi is a bias, and another one is given: add them and give the sum");
    return groups;
}

StepOptions describe(const Groups& groups, const MultiHeadOptions& options)
{
    const auto& [heads, mask, bias, causal, scale, softcap, positions, rotary, norm_kind, norm, unit_epsilon,
                 temperature, places] = options; // norms say themselves what they are, and places are steps
    StepOptions described{{"heads", std::to_string(heads)}};
    if (groups.is_grouped())
        described.emplace_back("key_value_heads", std::to_string(groups.groups));
    described.emplace_back("mask", describe(mask, causal));
    described.emplace_back("bias", bias ? "given" : "none");
    described.emplace_back("scale", describe_scale(scale));
    if (positions != HeadPositions::none)
        described.emplace_back("positions", std::string(name_of(positions)));
    if (softcap)
        described.emplace_back("softcap", exact_text(*softcap));
    if (unit_epsilon)
        described.emplace_back("unit_epsilon", exact_text(*unit_epsilon));
    if (temperature)
        described.emplace_back("temperature",
                               exact_text(temperature->strength) + " from every " + std::to_string(temperature->every));
    return described;
}

void expect_no_scaled_queries(std::string_view function, const MultiHeadOptions& options)
{
    if (options.unit_epsilon || options.temperature)
        throw Error(function, ": queries and keys that are scaled to one, and temperatures, are not computed here");
}

bool is_plain(const MultiHeadWeights& weights, HeadPositions positions)
{
    const auto& [query, key, value, output, query_norms, key_norms, sinks, gate] = weights;
    return positions == HeadPositions::none && key.weight.shape(1) == query.weight.shape(1) && query_norms.empty() &&
           key_norms.empty() && !sinks && !gate;
}

namespace {

/// The sinks of all heads: a step beside theirs.
/// @param trace  the scope of the attention
std::optional<Vector> shared_sinks(const std::optional<Vector>& sinks, std::size_t heads, const Trace& trace)
{
    if (!sinks)
        return std::nullopt;
    if (sinks->size() != heads)
        throw ShapeError("attention: sinks ", shape_of(*sinks), " are for ", sinks->size(), " heads, but there are ",
                         heads);
    return trace.input("sinks[h]", *sinks);
}

/// @param trace  the head's scope
Vector sink_of(const Vector& sinks, std::size_t head, const Trace& trace)
{
    return trace(
        "sinks[one]", [&] { return "sinks[" + std::to_string(head) + ":" + std::to_string(head + 1) + "]"; },
        Vector(Vector::shape_type{1}, sinks(head)));
}

/// What the queries of each position are multiplied by: a step that all heads share.
/// @param before  how many tokens come before the first
/// @param trace   the scope of the attention
std::optional<Term<Vector>> temperature_of(const MultiHeadOptions& options, std::size_t n, std::size_t before,
                                           const Trace& trace)
{
    if (!options.temperature)
        return std::nullopt;
    const auto [strength, every] = *options.temperature;
    if (every == 0)
        throw Error("attention: a temperature rises after every so many tokens, at least one");
    const Term counted = options.places ? positions_of(options.places->queries.positions, 0, n, trace) + 1.0
                                        : positions_from(before + 1, n, trace);
    return trace("temperature[n]", 1.0 + strength * log(1.0 + floor(counted / static_cast<double>(every))));
}

} // namespace

void stand_after(std::size_t earlier, MultiHeadOptions& options)
{
    if (options.places)
        options.rotary.positions = options.places->queries.positions;
    else
        options.rotary.first += earlier;
}

AttentionOptions options_of_head(const MultiHeadOptions& all, std::size_t n, std::size_t m, std::size_t head,
                                 const Trace& trace)
{
    const auto& [heads, mask, bias, causal, scale, softcap, positions, rotary, norm_kind, norm, unit_epsilon,
                 temperature, places] = all;
    AttentionOptions options{.scale = scale, .softcap = softcap};
    const auto distances = [&] {
        const double slope = alibi_slopes(heads)(head);
        return places ? alibi_bias(places->queries.positions, places->keys.positions, slope, trace)
                      : alibi_bias(n, m, slope, trace);
    };
    options.bias =
        positions == HeadPositions::alibi ? OptionalBias(distances()) : of_head("bias", bias, head, heads, trace);
    options.mask = of_head("mask", mask, head, heads, trace);
    return options;
}

template <Sequence T>
AttendedHeads<T> attend_by_heads(const PackedHeads<T>& packed,
                                 const std::type_identity_t<KeyValueCacheOf<Term<T>>>* past,
                                 const MultiHeadWeights& weights, const Groups& groups, const MultiHeadOptions& given,
                                 const Trace& trace)
{
    // Name once what all heads share: mask, bias, factors of rotary frequencies, the gains of the norms of queries and keys,
    // and the sinks.
    const std::size_t earlier = past ? past->keys.shape(token_axis<T>) : 0;
    const std::size_t n = packed.query.shape(token_axis<T>), m = earlier + packed.key.shape(token_axis<T>);
    MultiHeadOptions options = given;
    options.mask = join_masks(n, m, {.given = given.mask, .causal = given.causal}, trace);
    options.bias = share("bias[(b,) n, m]", given.bias, trace);
    stand_after(earlier, options);
    if (given.positions == HeadPositions::rotary)
        options.rotary = share_rotation(options.rotary, trace);
    const auto& [query, key, value, output, norms_of_queries, norms_of_keys, sinks_of_heads, gate] =
        weights; // the maps are in packed and for merged
    const NormDescription norm = described(options.norm, options.norm_kind);
    const Packed all_queries = pack(packed.query, query_steps, groups.heads, norms_of_queries, norm, trace);
    const Packed all_keys = pack(packed.key, key_steps, groups.groups, norms_of_keys, norm, trace);
    const auto temperature = temperature_of(options, n, earlier, trace);
    const auto sinks = shared_sinks(sinks_of_heads, groups.heads, trace);

    AttendedHeads<T> all;
    std::vector<Term<T>> contexts;
    for (std::size_t i = 0; i < groups.heads; ++i) {
        const Trace head = trace.scope("head", i);
        const std::size_t group = groups.of(i);

        // Take the head's queries, and the keys and values of its group, after those of the past.
        Term queries = placed_head(all_queries, temperature ? "plain_queries[(b,) n, d_k]" : "queries[(b,) n, d_k]", i,
                                   groups.heads, options, head);
        if (temperature)
            queries = head("queries[(b,) n, d_k]", queries * each_row(*temperature));
        Term keys = placed_head(all_keys, past ? "new_keys[(b,) n, d_k]" : "keys[(b,) m, d_k]", group, groups.groups,
                                options, head);
        if (past)
            keys = head("keys[(b,) m, d_k]", concat_rows(of_head(past->keys, group, groups.groups), keys));
        Term values =
            head(past ? "new_values[(b,) n, d_v]" : "values[(b,) m, d_v]", of_head(packed.value, group, groups.groups));
        if (past)
            values = head("values[(b,) m, d_v]", concat_rows(of_head(past->values, group, groups.groups), values));

        AttentionOptions options_here = options_of_head(options, n, m, i, head);
        if (sinks)
            options_here.sinks = sink_of(*sinks, i, head);
        auto attention = scaled_dot_product_attention(queries, keys, values, options_here, head);
        contexts.push_back(std::move(attention.context));
        all.weights.push_back(std::move(attention.weights));
        if (group == all.keys.size()) { // the others of its group have the same
            all.keys.push_back(std::move(keys));
            all.values.push_back(std::move(values));
        }
    }
    all.merged = trace("merged[(b,) n, h_d_v]", concat(contexts, -1));
    return all;
}

template <Sequence T>
MultiHeadOf<T> multi_head_attention(const Sources<T>& given, const MultiHeadWeights& weights,
                                    const MultiHeadOptions& options, const Trace& caller)
{
    constexpr std::string_view function = "multi_head_attention";
    expect_projectable(function, given, weights);
    const Groups groups = expect_groups(function, weights, options);
    const Trace trace = caller.module(function, [&] { return describe(groups, options); });
    const NamedSources from = name_sources(given, trace);

    // Make the queries, keys and values of all heads by three products.
    const PackedHeads packed = project(from, weights, axes_of(groups), trace);

    // Attend in each head, then mix the heads by the output map.
    auto heads = attend_by_heads(packed, nullptr, weights, groups, options, trace);
    return {T(mix_heads(from.queries, heads.merged, weights, trace)), all_as<T>(std::move(heads.weights))};
}

template <Sequence T>
MultiHeadOf<T> multi_head_attention(const T& x, const MultiHeadWeights& weights, const MultiHeadOptions& options,
                                    const Trace& trace)
{
    return multi_head_attention(Sources<T>(x), weights, options, trace);
}

#define ATTN_INSTANTIATE(T)                                                                                            \
    template MultiHeadOf<T> multi_head_attention(const Sources<T>&, const MultiHeadWeights&, const MultiHeadOptions&,  \
                                                 const Trace&);                                                        \
    template MultiHeadOf<T> multi_head_attention(const T&, const MultiHeadWeights&, const MultiHeadOptions&,           \
                                                 const Trace&);
ATTN_FOR_SEQUENCES(ATTN_INSTANTIATE)
#undef ATTN_INSTANTIATE
template decltype(attend_by_heads<Matrix>) attend_by_heads<Matrix>;
template decltype(attend_by_heads<Tensor3>) attend_by_heads<Tensor3>;

} // namespace attn
