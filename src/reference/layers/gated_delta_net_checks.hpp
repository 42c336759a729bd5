#pragma once

#include "attn/reference/layers/gated_delta_net.hpp"

#include "heads.hpp"

#include <algorithm>
#include <string>

/// What has to fit in a gated DeltaNet, and how a trace describes it.
namespace attn {

inline constexpr std::string_view of_delta_net = "gated_delta_net";

struct DeltaNetSizes {
    std::size_t heads, key_heads, d_k, d_v, width;

    std::size_t mixed() const { return 2 * key_heads * d_k + heads * d_v; }
    HeadColumns queries(std::size_t head) const { return keys_at(0, head); }
    HeadColumns keys(std::size_t head) const { return keys_at(key_heads * d_k, head); }
    HeadColumns values(std::size_t head) const
    {
        const std::size_t begin = 2 * key_heads * d_k + head * d_v;
        return {begin, begin + d_v};
    }

private:
    HeadColumns keys_at(std::size_t first, std::size_t head) const
    {
        const std::size_t begin = first + Groups{heads, key_heads}.of(head) * d_k;
        return {begin, begin + d_k};
    }
};

template <Sequence T>
DeltaNetSizes expect_sizes(const T& x, const GatedDeltaNetWeights& weights, const GatedDeltaNetOptions& options)
{
    const auto& [query, key, value, gate, beta, decay, kernel, dt_bias, a_log, norm, output] = weights;
    if (x.shape(token_axis<T>) == 0)
        throw ShapeError(of_delta_net, ": x ", shape_of(x), " has no tokens, expected at least one");
    const std::size_t heads = beta.weight.shape(1), key_heads = options.key_heads.value_or(heads);
    for (const auto& [name, map] : {std::pair{"query weights", &query},
                                    {"key weights", &key},
                                    {"value weights", &value},
                                    {"gate weights", &gate},
                                    {"beta weights", &beta},
                                    {"decay weights", &decay}})
        expect_agreement(of_delta_net, "d_model", {"x", x, feature_axis<T>}, {name, map->weight, 0});
    expect_even_split(of_delta_net, "value weights", shape_of(value.weight), heads);
    if (key_heads == 0 || heads % key_heads != 0)
        throw ShapeError(of_delta_net, ": ", heads, " heads can't be divided evenly among ", key_heads,
                         " heads of keys");
    expect_even_split(of_delta_net, "key weights", shape_of(key.weight), key_heads);
    if (options.chunk == std::size_t{0})
        throw Error(of_delta_net, ": a chunk of 0 tokens, expected at least 1");
    const DeltaNetSizes sizes{heads, key_heads, key.weight.shape(1) / key_heads, value.weight.shape(1) / heads,
                              kernel.shape(2)};
    expect_agreement(of_delta_net, "g d_k", {"query weights", query.weight, 1}, {"key weights", key.weight, 1});
    expect_agreement(of_delta_net, "h d_v", {"value weights", value.weight, 1}, {"gate weights", gate.weight, 1});
    expect_agreement(of_delta_net, "h d_v", {"value weights", value.weight, 1}, {"output weights", output.weight, 0});
    expect_agreement(of_delta_net, "h", {"beta weights", beta.weight, 1}, {"decay weights", decay.weight, 1});
    expect_agreement(of_delta_net, "h", {"decay weights", decay.weight, 1}, {"dt_bias", dt_bias, 0});
    expect_agreement(of_delta_net, "h", {"decay weights", decay.weight, 1}, {"a_log", a_log, 0});
    if (norm.gain.size() != sizes.d_v)
        throw ShapeError(of_delta_net, ": the gain ", shape_of(norm.gain),
                         " of the norm does not fit, expected d_v = ", sizes.d_v,
                         " features, those of one head's values");
    if (shape_of(kernel) != Shape{sizes.mixed(), 1, sizes.width} || sizes.width == 0)
        throw ShapeError(of_delta_net, ": kernel ", shape_of(kernel), " does not fit, expected (", sizes.mixed(),
                         ", 1, width): a filter for each feature of queries, keys and values");
    return sizes;
}

/// (b) in front of a shape where there are several sequences.
template <Sequence T>
Shape with_batch(const T& x, Shape shape)
{
    if constexpr (std::same_as<Value<T>, Tensor3>)
        shape.insert(shape.begin(), x.shape(0));
    return shape;
}

template <Traceable T>
T zeros(const Shape& shape)
{
    typename T::shape_type sizes;
    std::ranges::copy(shape, sizes.begin());
    return T(sizes, 0.0);
}

/// The cache that there is, or one of zeros.
template <Sequence T>
GatedDeltaNetCacheOf<Value<T>> expect_past(const T& x, const PastOfDeltaNet<Value<T>>& past, const DeltaNetSizes& sizes)
{
    const Shape conv = with_batch(x, {sizes.width - 1, sizes.mixed()});
    const Shape recurrent = with_batch(x, {sizes.heads, sizes.d_k, sizes.d_v});
    if (!past)
        return {zeros<Value<T>>(conv), zeros<HeadStates<Value<T>>>(recurrent)};
    const auto expect = [](const char* name, const Shape& found, const Shape& expected) {
        if (found != expected)
            throw ShapeError(of_delta_net, ": ", name, " ", found, " does not fit, expected ", expected);
    };
    expect("past_conv_state", shape_of(past->conv_state), conv);
    expect("past_recurrent_state", shape_of(past->recurrent_state), recurrent);
    return *past;
}

inline StepOptions describe(const DeltaNetSizes& sizes, const GatedDeltaNetOptions& options)
{
    const auto& [key_heads, chunk, epsilon, norm] = options;
    StepOptions described{{"heads", std::to_string(sizes.heads)}, {"key_heads", std::to_string(sizes.key_heads)}};
    if (chunk)
        described.emplace_back("chunk", std::to_string(*chunk));
    described.emplace_back("epsilon", exact_text(epsilon));
    return described;
}

} // namespace attn
