#include "attn/reference/attention/restricted.hpp"

#include "attn/core/memory.hpp"
#include "attn/core/shape.hpp"
#include "attn/reference/attention/scale.hpp"
#include "attn/reference/ops/softmax.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace attn {
namespace {

// ----------------------------------------------------------------------------------------------------------- distances

/// The distances step * first, step * (first + 1), …, step * last; none where last is before first.
struct Multiples {
    std::int64_t step, first, last;

    std::int64_t count() const { return std::max<std::int64_t>(last - first + 1, 0); }

    /// "4 * (arange(5) - 2)"
    std::string formula() const
    {
        const std::string sequence =
            "arange(" + std::to_string(count()) + ")" + (first < 0 ? " - " : " + ") + std::to_string(std::abs(first));
        return step == 1 ? sequence : std::to_string(step) + " * (" + sequence + ")";
    }
};

/// The distances in order: multiples of the stride, all within the radius, multiples of the stride.
std::vector<Multiples> distances_in_parts(const Neighbourhood& neighbourhood, std::size_t n)
{
    if (!neighbourhood.radius && !neighbourhood.stride)
        throw Error("restricted_attention: there is neither a radius nor a stride, expected one or both");
    if (neighbourhood.stride == std::size_t{0})
        throw Error("restricted_attention: the stride is 0, expected at least 1");
    const std::size_t furthest = n == 0 ? 0 : n - 1; // that any distance can be
    const bool looks_ahead = neighbourhood.side == Side::both;
    const auto at_most = [&](std::size_t size) { return static_cast<std::int64_t>(std::min(size, furthest)); };
    const std::int64_t radius = at_most(neighbourhood.radius.value_or(0));
    const Multiples near{1, -radius, looks_ahead ? radius : 0};
    if (!neighbourhood.stride)
        return {near};

    const std::int64_t reach = at_most(furthest / *neighbourhood.stride);
    const auto stride = static_cast<std::int64_t>(std::min<std::size_t>(*neighbourhood.stride, INT64_MAX));
    if (!neighbourhood.radius)
        return {{stride, -reach, looks_ahead ? reach : 0}};
    const std::int64_t beyond = radius / stride + 1; // the first multiple that is not within the radius
    std::vector<Multiples> parts{{stride, -reach, -beyond}, near};
    if (looks_ahead)
        parts.push_back({stride, beyond, reach});
    std::erase_if(parts, [](const Multiples& part) { return part.count() == 0; });
    return parts;
}

std::string formula_of_distances(const Neighbourhood& neighbourhood, std::size_t n)
{
    const std::vector<Multiples> parts = distances_in_parts(neighbourhood, n);
    if (parts.size() == 1)
        return parts.front().formula();
    std::string text;
    for (const Multiples& part : parts)
        text += part.formula() + ", ";
    return "concat(" + text + "axis=0)";
}

// ------------------------------------------------------------------------------------------------------------- the band

IntegerMatrix places_of(const Integers& distances, std::size_t n)
{
    IntegerMatrix places(IntegerMatrix::shape_type{n, distances.size()});
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t c = 0; c < distances.size(); ++c)
            places(i, c) = static_cast<std::int64_t>(i) + distances(c);
    return places;
}

Mask is_place(const Integers& distances, std::size_t n)
{
    expect_memory("mask", {n, distances.size()}, sizeof(bool));
    Mask mask(Mask::shape_type{n, distances.size()});
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t c = 0; c < distances.size(); ++c)
            mask(i, c) = i + static_cast<std::size_t>(distances(c)) < n; // wraps to a large number before the first
    return mask;
}

/// The neighbours of each token. Places and neighbours take as much memory as the scores: they exist only for a listener.
Band band_of(const Neighbourhood& neighbourhood, std::size_t n, const Trace& trace)
{
    const Integers distances = trace(
        "distances[width]", [&] { return formula_of_distances(neighbourhood, n); }, distances_within(neighbourhood, n));
    if (!trace.has_listener())
        return {distances, is_place(distances, n)};
    const std::string count = std::to_string(n);
    expect_memory("places", {n, distances.size()});
    const IntegerMatrix places =
        trace("places[n, width]", "arange(" + count + ")[:, None] + distances", places_of(distances, n));
    const Mask mask = trace("mask[n, width]", "(places >= 0) & (places < " + count + ")",
                            Mask(places >= 0 && places < static_cast<std::int64_t>(n)));
    const IntegerMatrix neighbours = trace("neighbours[n, width]", "where(mask, places, 0)",
                                           IntegerMatrix(xt::where(mask, places, std::int64_t{0})));
    return {distances, mask, neighbours};
}

// ----------------------------------------------------------------------------------------------------------- attention

template <Sequence T>
void expect_fit(const T& queries, const T& keys, const T& values)
{
    constexpr std::string_view function = "restricted_attention";
    constexpr std::size_t n = token_axis<T>;
    expect_agreement(function, "d_k", {"queries", queries, feature_axis<T>}, {"keys", keys, feature_axis<T>});
    for (std::size_t axis = 0; axis <= n; ++axis) {
        expect_agreement(function, axis == n ? "n" : "b", {"queries", queries, axis}, {"keys", keys, axis});
        expect_agreement(function, axis == n ? "n" : "b", {"keys", keys, axis}, {"values", values, axis});
    }
}

StepOptions describe(const RestrictedOptions& options)
{
    const auto number = [](const std::optional<std::size_t>& size) { return size ? std::to_string(*size) : "none"; };
    return {{"radius", number(options.neighbourhood.radius)},
            {"stride", number(options.neighbourhood.stride)},
            {"side", options.neighbourhood.side == Side::both ? "both" : "causal"},
            {"scale", describe_scale(options.scale)}};
}

/// @name The formulas that gather keys and values by their neighbours; the tokens of a batch are its second axis
/// @{
template <Sequence T>
constexpr std::string_view formula_of_scores =
    std::same_as<T, Matrix> ? "where(mask, sum(queries[:, None, :] * keys[neighbours], axis=2), 0)"
                            : "where(mask, sum(queries[:, :, None, :] * permute(permute(keys, 1, 0, 2)[neighbours], 2, "
                              "0, 1, 3), axis=3), 0)";
template <Sequence T>
constexpr std::string_view formula_of_context =
    std::same_as<T, Matrix>
        ? "sum(where(mask[:, :, None], weights[:, :, None] * values[neighbours], 0), axis=1)"
        : "sum(where(mask[:, :, None], weights[:, :, :, None] * permute(permute(values, 1, 0, 2)[neighbours], 2, 0, 1, "
          "3), 0), axis=2)";
/// @}

/// @name In the storage of the scores, which is most of what a long sequence takes
/// @{
template <Sequence T>
T times(T scores, double scale)
{
    for (double& score : scores)
        score *= scale;
    return scores;
}

template <Sequence T>
T masked_by(const Mask& mask, T scores)
{
    for (std::size_t i = 0; i < scores.size(); ++i)
        if (!mask.data()[i % mask.size()])
            scores.data()[i] = minus_infinity;
    return scores;
}
/// @}

} // namespace

Integers distances_within(const Neighbourhood& neighbourhood, std::size_t n)
{
    std::vector<std::int64_t> distances;
    for (const Multiples& part : distances_in_parts(neighbourhood, n))
        for (std::int64_t i = part.first; i <= part.last; ++i)
            distances.push_back(part.step * i);
    Integers result(Integers::shape_type{distances.size()});
    std::ranges::copy(distances, result.begin());
    return result;
}

template <Sequence T>
RestrictedAttentionOf<T> restricted_attention(const T& given_queries, const T& given_keys, const T& given_values,
                                              const RestrictedOptions& options, const Trace& caller)
{
    expect_fit(given_queries, given_keys, given_values);
    const Trace trace = caller.module("restricted_attention", [&] { return describe(options); });
    const T& queries = trace.input("queries[(b,) n, d_k]", given_queries);
    const T& keys = trace.input("keys[(b,) n, d_k]", given_keys);
    const T& values = trace.input("values[(b,) n, d_v]", given_values);
    Band band = band_of(options.neighbourhood, queries.shape(token_axis<T>), trace);

    // Compare every query with its neighbours.
    Shape shape = shape_of(queries);
    shape.back() = band.distances.size();
    expect_memory("scores", shape);
    T scores = trace("scores[(b,) n, width]", formula_of_scores<T>, banded_scores(queries, keys, band));

    // Keep the size of the comparison independent of d_k.
    const double scale = scale_factor(options.scale, keys.shape(feature_axis<T>));
    T scaled = trace(
        "scaled[(b,) n, width]", [&] { return scale_formula(options.scale); }, times(std::move(scores), scale));

    // A missing neighbour gets the score minus infinity, so its weight is exactly 0.
    T masked = trace("masked[(b,) n, width]", "where(mask, scaled, -inf)", masked_by(band.mask, std::move(scaled)));
    T weights = trace("weights[(b,) n, width]", "softmax(masked)", softmax(std::move(masked)));

    // Average the values of the neighbours with these weights.
    T context = trace("context[(b,) n, d_v]", formula_of_context<T>, sum_of_neighbours(weights, values, band));
    return {std::move(context), std::move(weights), std::move(band)};
}

template decltype(restricted_attention<Matrix>) restricted_attention<Matrix>;
template decltype(restricted_attention<Tensor3>) restricted_attention<Tensor3>;

} // namespace attn
