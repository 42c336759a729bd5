#pragma once

#include "attn/core/shape.hpp"
#include "attn/reference/layers/multi_head.hpp"
#include "attn/reference/ops/concat.hpp"

#include <string>
#include <string_view>
#include <vector>

/// The steps before and after the heads of any multi-head attention: project, split, merge, map.
namespace attn {

/// The tokens that queries, keys and values are made of, under the names that the trace has for them.
template <Sequence T>
struct Sources {
    const T& queries;
    const T& keys;
    const T& values;
    std::string_view keys_name, values_name;
};

template <Sequence T>
Sources<T> sources(const T& x)
{
    return {x, x, x, "x", "x"};
}

template <Sequence T>
Sources<T> sources(const T& x, const T& memory)
{
    return {x, memory, memory, "memory", "memory"};
}

template <Sequence T>
Sources<T> sources(const T& x, const T& memory, const T& value_memory)
{
    return {x, memory, value_memory, "memory", "value_memory"};
}

/// Names them, each once.
template <Sequence T>
Sources<T> name_sources(const Sources<T>& from, const Trace& trace)
{
    const T& x = trace.input("x[(b,) n, d_model]", from.queries);
    const T& keys = from.keys_name == "x" ? x : trace.input("memory[(b,) m, d_memory]", from.keys);
    const T& values =
        from.values_name == from.keys_name ? keys : trace.input("value_memory[(b,) m, d_value]", from.values);
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
        throw ShapeError(std::string(function) + ": " + std::string(role) + " " + to_string(shape) +
                         " can't be divided evenly among " + std::to_string(heads) + " heads");
}

/// The queries, keys and values of all heads, side by side.
template <Sequence T>
struct PackedHeads {
    T query; ///< ((b,) n, h d_k)
    T key;   ///< ((b,) m, h d_k)
    T value; ///< ((b,) m, h d_v)
};

/// The letters of the axes of packed keys and values.
struct PackedAxes {
    std::string_view key = "h_d_k", value = "h_d_v", tokens = "m";
};

/// Makes the queries, keys and values of all heads by three products.
template <Sequence T>
PackedHeads<T> project(const Sources<T>& from, const MultiHeadWeights& weights, const PackedAxes& axes,
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

    /// "query[..., 0:2]"
    std::string of(std::string_view packed) const
    {
        return std::string(packed) + "[..., " + std::to_string(begin) + ":" + std::to_string(end) + "]";
    }
};

inline HeadColumns columns_of(std::size_t width, std::size_t head, std::size_t heads)
{
    return {head * (width / heads), (head + 1) * (width / heads)};
}

/// One head's columns of a packed tensor.
/// @param step   label of the head's tensor: "queries[(b,) n, d_k]"
/// @param name   of the packed tensor: "query"
/// @param trace  the head's scope
template <Sequence T>
T split_head(std::string_view step, std::string_view name, const T& packed, std::size_t head, std::size_t heads,
             const Trace& trace)
{
    const HeadColumns of_head = columns_of(packed.shape(feature_axis<T>), head, heads);
    return trace(
        step, [&] { return of_head.of(name); }, columns(packed, of_head.begin, of_head.end));
}

/// A mask or a bias as one head has it: its own, where there is one for each head, else what all heads share.
/// @param name   of what all heads have: "mask"
/// @param trace  the head's scope
template <class Variant>
std::optional<Variant> of_head(std::string_view name, const std::optional<Variant>& all, std::size_t head,
                               std::size_t heads, const Trace& trace)
{
    using OfHeads = std::variant_alternative_t<2, Variant>;
    const OfHeads* given = all ? std::get_if<OfHeads>(&*all) : nullptr;
    if (given == nullptr)
        return all;
    if (given->shape(1) != 1 && given->shape(1) != heads)
        throw ShapeError("attention: " + std::string(name) + " " + to_string(shape_of(*given)) + " is for " +
                         std::to_string(given->shape(1)) + " heads, but there are " + std::to_string(heads));
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

/// "concat(head.0.context, head.1.context, axis=-1)": of every head, or of every stride-th.
inline std::string merging(std::string_view step, std::size_t heads, std::size_t stride = 1)
{
    std::string parts;
    for (std::size_t head = 0; head < heads; head += stride)
        parts += "head." + std::to_string(head) + "." + std::string(step) + ", ";
    return "concat(" + parts + "axis=-1)";
}

/// The contexts of all heads side by side.
template <Sequence T>
T merge_heads(const std::vector<T>& contexts, const Trace& trace)
{
    return trace(
        "merged[(b,) n, h_d_v]", [&] { return merging("context", contexts.size()); }, concat_columns(contexts));
}

/// W^O, which mixes the heads; without it the output is another name of `merged`.
template <Sequence T>
T map_output(const T& merged, const std::optional<LinearWeights>& output, const Trace& trace)
{
    if (output)
        return linear(merged, *output, {"merged", "output", "h_d_v", "d_model"}, trace);
    trace.alias("output", "merged");
    return merged;
}

/// The contexts of the heads side by side: the step merged.
template <Sequence T>
struct MergedHeads {
    T merged;               ///< ((b,) n, h d_v)
    std::vector<T> weights; ///< of each head, ((b,) n, m)
};

/// Attends in each head with its share of the features, under one mask and with one bias.
template <Sequence T>
MergedHeads<T> attend_by_heads(const PackedHeads<T>& packed, const std::optional<AnyMask>& mask,
                               const std::optional<AnyBias>& bias, const MultiHeadOptions& options, const Trace& trace);

} // namespace attn
