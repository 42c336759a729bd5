#pragma once

#include "attn/core/shape.hpp"
#include "attn/reference/layers/cache.hpp"
#include "attn/reference/layers/multi_head.hpp"
#include "attn/reference/ops/terms.hpp"

#include <string>
#include <string_view>
#include <vector>

/// The parts of any multi-head attention: project, split, place, attend, merge, map.
namespace attn {

/// The tokens that queries, keys and values are made of.
template <Sequence T>
struct NamedSources {
    Term<T> queries, keys, values;
    std::string_view keys_name, values_name;
};

/// Names each once.
template <Sequence T>
NamedSources<Value<T>> name_sources(const Sources<T>& from, const Trace& trace)
{
    const Term x = trace.input("x[(b,) n, d_model]", Term(from.queries));
    const Term keys = from.keys_name == "x" ? x : trace.input("memory[(b,) m, d_memory]", Term(from.keys));
    const Term values =
        from.values_name == from.keys_name ? keys : trace.input("value_memory[(b,) m, d_value]", Term(from.values));
    return {x, keys, values, from.keys_name, from.values_name};
}

/// The letter of the features of the tokens of that name.
inline std::string_view features_of(std::string_view name)
{
    return name == "x" ? "d_model" : name == "memory" ? "d_memory" : "d_value";
}

template <Sequence T>
void expect_projectable(std::string_view function, const Sources<T>& from, const MultiHeadWeights& weights)
{
    constexpr std::size_t features = feature_axis<T>;
    expect_agreement(function, "d_model", {"x", from.queries, features}, {"query weights", weights.query.weight, 0});
    expect_agreement(function, features_of(from.keys_name), {from.keys_name, from.keys, features},
                     {"key weights", weights.key.weight, 0});
    expect_agreement(function, features_of(from.values_name), {from.values_name, from.values, features},
                     {"value weights", weights.value.weight, 0});
    expect_same_batch(function, "x", from.queries, from.keys_name, from.keys);
    expect_same_batch(function, from.keys_name, from.keys, from.values_name, from.values);
    expect_agreement(function, "m", {from.keys_name, from.keys, token_axis<T>},
                     {from.values_name, from.values, token_axis<T>});
}

inline void expect_even_split(std::string_view function, std::string_view role, const Shape& shape, std::size_t heads)
{
    if (heads == 0 || shape.back() == 0 || shape.back() % heads != 0)
        throw ShapeError(function, ": ", role, " ", shape, " can't be divided evenly among ", heads, " heads");
}

/// The queries, keys and values of all heads, side by side.
template <Sequence T>
struct PackedHeads {
    Term<T> query; ///< ((b,) n, h d_k)
    Term<T> key;   ///< ((b,) m, h d_k)
    Term<T> value; ///< ((b,) m, h d_v)
};

/// How many query heads there are, and how many key/value heads, each of which serves several of them.
struct Groups {
    std::size_t heads, groups;

    std::size_t of(std::size_t head) const { return head / (heads / groups); }
    bool is_grouped() const { return groups != heads; }
};

/// The letters of the axes of packed keys and values.
struct PackedAxes {
    std::string_view key = "h_d_k", value = "h_d_v", tokens = "m";
};

inline PackedAxes axes_of(const Groups& groups)
{
    return groups.is_grouped() ? PackedAxes{"g_d_k", "g_d_v"} : PackedAxes{};
}

/// Makes the queries, keys and values of all heads by three products.
template <Sequence T>
PackedHeads<T> project(const NamedSources<T>& from, const MultiHeadWeights& weights, const PackedAxes& axes,
                       const Trace& trace)
{
    return {linear(from.queries, weights.query, {"x", "query", "d_model", "h_d_k"}, trace),
            linear(from.keys, weights.key, {from.keys_name, "key", features_of(from.keys_name), axes.key, axes.tokens},
                   trace),
            linear(from.values, weights.value,
                   {from.values_name, "value", features_of(from.values_name), axes.value, axes.tokens}, trace)};
}

/// The columns of a packed tensor that belong to one of several heads.
struct HeadColumns {
    std::size_t begin, end;

    /// query[..., 0:2]
    template <Sequence T>
    Term<T> of(const Term<T>& packed) const
    {
        return columns(packed, begin, end);
    }
};

inline HeadColumns columns_of(std::size_t width, std::size_t head, std::size_t heads)
{
    return {head * (width / heads), (head + 1) * (width / heads)};
}

/// One head's columns of a packed tensor.
template <Sequence T>
Term<T> of_head(const Term<T>& packed, std::size_t head, std::size_t heads)
{
    return columns_of(packed.shape(feature_axis<T>), head, heads).of(packed);
}

/// Compares the queries of one head with its keys.
/// @param trace  the head's scope: queries, keys, scores, scaled
template <Sequence T>
Term<T> scaled_scores(const PackedHeads<T>& packed, std::size_t head, std::size_t heads, std::optional<double> scale,
                      const Trace& trace)
{
    const Term queries = trace("queries[(b,) n, d_k]", of_head(packed.query, head, heads));
    const Term keys = trace("keys[(b,) m, d_k]", of_head(packed.key, head, heads));
    const Term scores = trace("scores[(b,) n, m]", matmul(queries, transpose(keys)));
    return trace(
        "scaled[(b,) n, m]", [&] { return scale_formula(scale); },
        scores * scale_factor(scale, keys.shape(feature_axis<T>)));
}

/// The names of the scopes in which queries or keys are prepared.
struct PlacedSteps {
    std::string_view norm;   ///< "query_norm"
    std::string_view rotary; ///< "rotary_query"
    std::string_view unit;   ///< where they are scaled to one: "unit_query"
};

inline constexpr PlacedSteps query_steps{"query_norm", "rotary_query", "unit_query"};
inline constexpr PlacedSteps key_steps{"key_norm", "rotary_key", "unit_key"};

/// The norms of what heads have: one that they share, or one for each of them. Their gains and biases are steps beside the heads.
struct HeadNorms {
    struct Named {
        std::string scope; ///< "query_norm", or "query_norm.0"
        LayerNormWeights weights;
    };
    std::string_view scope; ///< "query_norm"
    std::vector<Named> norms;
    NormDescription description;

    /// One head's tokens after its norm.
    /// @param trace  the head's scope
    template <Sequence T>
    Term<T> of(const Term<T>& tokens, std::size_t head, const Trace& trace) const
    {
        if (norms.empty())
            return tokens;
        const auto& [beside, weights] = norms[norms.size() == 1 ? 0 : head];
        const Trace inside = trace.scope(scope);
        const Term x = inside.input("x[(b,) n, d_model]", tokens);
        inside.alias("gain", beside + ".gain");
        if (weights.bias)
            inside.alias("bias", beside + ".bias");
        return norm(x, weights, description, inside);
    }
};

/// Names the gains and the biases of norms, as wide as one head's features.
/// @param letter  of these features: "d_k"
/// @param trace   the scope of the attention
inline HeadNorms share_norms(std::string_view scope, const std::string& letter,
                             const std::vector<LayerNormWeights>& norms, const NormDescription& description,
                             const Trace& trace)
{
    HeadNorms shared{scope, {}, description};
    for (std::size_t i = 0; i < norms.size(); ++i) {
        const bool is_one = norms.size() == 1;
        const Trace inside = is_one ? trace.scope(scope) : trace.scope(scope, i);
        LayerNormWeights named{inside.input("gain[" + letter + "]", norms[i].gain)};
        if (const auto& bias = norms[i].bias)
            named.bias = inside.input("bias[" + letter + "]", *bias);
        shared.norms.push_back({std::string(scope) + (is_one ? "" : "." + std::to_string(i)), std::move(named)});
    }
    return shared;
}

inline NormDescription described(const RmsNormOptions& options, NormKind kind = NormKind::rms)
{
    return {.kind = kind, .epsilon = options.epsilon, .adds_one = options.adds_one};
}

/// The queries or the keys of all heads, side by side, and the norms of each head; after the norm of all of them, where it is as
/// wide.
template <Sequence T>
struct Packed {
    Term<T> tensor;
    PlacedSteps steps;
    HeadNorms norms;
};

template <Sequence T>
Packed<T> pack(const Term<T>& all, const PlacedSteps& steps, std::size_t heads,
               const std::vector<LayerNormWeights>& norms, const NormDescription& description, const Trace& trace)
{
    if (norms.size() > 1 && norms.size() != heads)
        throw ShapeError("attention: ", norms.size(), " norms in ", steps.norm, " are no norm for each of ", heads,
                         " heads");
    if (norms.size() == 1 && heads > 1 && norms.front().gain.size() == all.shape(feature_axis<T>))
        return {norm(all, norms.front(), description, trace.scope(steps.norm)), steps, {}};
    return {all, steps, share_norms(steps.norm, "d_k", norms, description, trace)};
}

/// One head's queries or keys: normalised where the weights have such a norm, then rotated by their positions, then scaled to one,
/// where the options say so.
/// @param trace  the head's scope
template <Sequence T>
Term<T> placed_head(const Packed<T>& all, std::string_view label, std::size_t head, std::size_t heads,
                    const MultiHeadOptions& options, const Trace& trace)
{
    Term<T> placed = all.norms.of(of_head(all.tensor, head, heads), head, trace);
    if (options.positions == HeadPositions::rotary) {
        const Trace inside = trace.scope(all.steps.rotary);
        placed = rotary(inside.input("x[(b,) n, d]", placed), options.rotary, inside);
    }
    if (options.unit_epsilon) {
        const Trace inside = trace.scope(all.steps.unit);
        placed = rms_norm(inside.input("x[(b,) n, d_model]", placed), *options.unit_epsilon, inside);
    }
    return trace.input(label, placed);
}

/// A mask or a bias as one head has it: its own, where there is one for each head, else what all heads share.
/// @param name   of what all heads have: "mask"
/// @param trace  the head's scope
template <class Variant>
Shared<Variant> of_head(std::string_view name, const Shared<Variant>& all, std::size_t head, std::size_t heads,
                        const Trace& trace)
{
    using OfHeads = std::variant_alternative_t<2, Variant>;
    const OfHeads* given = all ? std::get_if<OfHeads>(&*all) : nullptr;
    if (given == nullptr)
        return all;
    if (given->shape(1) != 1 && given->shape(1) != heads)
        throw ShapeError("attention: ", name, " ", shape_of(*given), " is for ", given->shape(1),
                         " heads, but there are ", heads);
    const std::size_t place = given->shape(1) == 1 ? 0 : head;
    const auto taken = [&](const char* sequences, auto own) -> Variant {
        return trace(
            std::string(name) + "[(b,) n, m]",
            [&] { return std::string(name) + "[" + sequences + ", " + std::to_string(place) + "]"; }, std::move(own));
    };
    if (given->shape(0) == 1)
        return taken("0", std::variant_alternative_t<0, Variant>(xt::view(*given, 0, place, xt::all(), xt::all())));
    return taken(":", std::variant_alternative_t<1, Variant>(xt::view(*given, xt::all(), place, xt::all(), xt::all())));
}

/// W^O, which mixes the heads; without it the output is another name of them.
template <Sequence T>
Term<T> map_output(const Term<T>& heads, const std::optional<LinearWeights>& output, const Trace& trace)
{
    if (!output)
        return trace.alias("output", heads);
    return linear(heads, *output, {"heads", "output", "h_d_v", "d_model"}, trace);
}

/// What the heads give together: W^O mixes them. Where the weights have a gate, each feature is first multiplied by a number from 0
/// to 1, which is made of the token that attends.
/// @param x  the tokens that attend
template <Sequence T>
Term<T> mix_heads(const Term<T>& x, const Term<T>& merged, const MultiHeadWeights& weights, const Trace& trace)
{
    if (!weights.gate)
        return map_output(merged, weights.output, trace);
    const Term gate = linear(x, *weights.gate, {"x", "gate", "d_model", "h_d_v"}, trace);
    return map_output(trace("gated[(b,) n, h_d_v]", merged * sigmoid(gate)), weights.output, trace);
}

/// Checks everything that the weights of heads have to agree in.
/// @return the heads, and the groups that share keys and values
Groups expect_groups(std::string_view function, const MultiHeadWeights& weights, const MultiHeadOptions& options);

StepOptions describe(const Groups& groups, const MultiHeadOptions& options);

/// Lets rotations begin where earlier tokens end, or at the places that are given.
void stand_after(std::size_t earlier, MultiHeadOptions& options);

/// What attention in one head is asked for: its mask and bias, and what is the same in all heads.
/// @param all    with the mask and bias of all heads, as the trace has them
/// @param trace  the head's scope
AttentionOptions options_of_head(const MultiHeadOptions& all, std::size_t n, std::size_t m, std::size_t head,
                                 const Trace& trace);

/// What the heads leave.
template <Sequence T>
struct AttendedHeads {
    Term<T> merged;                    ///< ((b,) n, h d_v): the contexts side by side
    std::vector<Term<T>> weights;      ///< of each head, ((b,) n, m)
    std::vector<Term<T>> keys, values; ///< of each key/value head, those of the past among them
};

/// Attends in each head with its share of the features: the one loop of multi-head, grouped-query and cached attention.
/// @param past     keys and values of earlier tokens, which come before the new ones; none where nullptr
/// @param weights  their norms of queries and keys
template <Sequence T>
AttendedHeads<T> attend_by_heads(const PackedHeads<T>& packed,
                                 const std::type_identity_t<KeyValueCacheOf<Term<T>>>* past,
                                 const MultiHeadWeights& weights, const Groups& groups, const MultiHeadOptions& options,
                                 const Trace& trace);

/// Terms as the tensors that were asked for.
template <class T, class Given>
std::vector<T> all_as(std::vector<Given> terms)
{
    if constexpr (std::same_as<T, Given>)
        return terms;
    else {
        std::vector<T> values;
        for (Given& term : terms)
            values.push_back(T(std::move(term)));
        return values;
    }
}

} // namespace attn
