#include "attn/attention/restricted.hpp"

#include "attn/ops/softmax.hpp"
#include "attn/shape.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace attn {
namespace {

/// Distances start, start + step, …
struct Progression {
    std::ptrdiff_t start;
    std::size_t step;
    std::size_t count;
};

void expect_neighbours(const Neighbourhood& neighbourhood)
{
    if (!neighbourhood.radius && !neighbourhood.stride)
        throw Error("restricted_attention: who is a neighbour? A radius, a stride or both have to be given");
    if (neighbourhood.stride == std::size_t{0})
        throw Error("restricted_attention: a stride is at least 1");
}

/// The multiples from the first to the last of a step.
Progression multiples(std::size_t step, std::ptrdiff_t first, std::ptrdiff_t last)
{
    const std::ptrdiff_t count = std::max<std::ptrdiff_t>(last - first + 1, 0);
    return {first * static_cast<std::ptrdiff_t>(step), step, static_cast<std::size_t>(count)};
}

/// The distances in order: far ones by strides, near ones one by one, far ones by strides.
std::vector<Progression> progressions(const Neighbourhood& neighbourhood, std::size_t n)
{
    expect_neighbours(neighbourhood);
    const std::size_t furthest = n == 0 ? 0 : n - 1; // that any distance can be
    const bool looks_ahead = neighbourhood.side == Side::both;
    const auto radius = static_cast<std::ptrdiff_t>(std::min(neighbourhood.radius.value_or(0), furthest));
    const Progression near = multiples(1, -radius, looks_ahead ? radius : 0);
    if (!neighbourhood.stride)
        return {near};

    const std::size_t stride = *neighbourhood.stride;
    const auto reach = static_cast<std::ptrdiff_t>(furthest / stride);
    if (!neighbourhood.radius)
        return {multiples(stride, -reach, looks_ahead ? reach : 0)};
    const auto counted =
        static_cast<std::ptrdiff_t>(static_cast<std::size_t>(radius) / stride); // near ones are in already
    std::vector<Progression> parts{multiples(stride, -reach, -counted - 1), near};
    if (looks_ahead)
        parts.push_back(multiples(stride, counted + 1, reach));
    std::erase_if(parts, [](const Progression& part) { return part.count == 0; });
    return parts;
}

std::string formula_of(const Progression& part)
{
    const std::ptrdiff_t first = part.start / static_cast<std::ptrdiff_t>(part.step);
    const std::string sequence = "arange(" + std::to_string(part.count) + ")" + (first < 0 ? " - " : " + ") +
                                 std::to_string(first < 0 ? -first : first);
    return part.step == 1 ? sequence : std::to_string(part.step) + " * (" + sequence + ")";
}

std::string formula_of(const std::vector<Progression>& parts)
{
    if (parts.size() == 1)
        return formula_of(parts.front());
    std::string text;
    for (const Progression& part : parts)
        text += formula_of(part) + ", ";
    return "concat(" + text + "axis=0)";
}

// ------------------------------------------------------------------------------------------------------------- the band

/// A listener may have put other distances in place of these.
std::vector<std::ptrdiff_t> named(const std::vector<std::ptrdiff_t>& distances, const std::vector<Progression>& parts,
                                  const Trace& trace)
{
    Vector numbers(Vector::shape_type{distances.size()});
    std::ranges::copy(distances, numbers.begin());
    numbers = trace(
        "distances[width]", [&] { return formula_of(parts); }, std::move(numbers));
    std::vector<std::ptrdiff_t> result;
    for (const double number : numbers)
        result.push_back(std::lround(number));
    return result;
}

Mask inside(const std::vector<std::ptrdiff_t>& distances, std::size_t n)
{
    Mask mask(Mask::shape_type{n, distances.size()});
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t c = 0; c < distances.size(); ++c)
            mask(i, c) = i + static_cast<std::size_t>(distances[c]) < n; // wraps to a large number before the first
    return mask;
}

/// A tensor that formulas gather by, made for listeners only: the computation goes by distances and mask.
void name_index(std::string_view step, const std::string& formula, const Matrix& value, const Trace& trace)
{
    if (trace(step, formula, value) != value)
        throw Error("restricted_attention: " + parse_step_label(step).name +
                    " follow from distances and mask, and are whole numbers up to n: they can't be made zero or other "
                    "ones, nor be rounded to fewer digits than they have");
}

Band named_band(const Neighbourhood& neighbourhood, std::size_t n, const Trace& trace)
{
    const std::vector<Progression> parts = progressions(neighbourhood, n);
    Band band{named(distances_within(neighbourhood, n), parts, trace), {}};
    if (!trace.has_listener()) {
        band.mask = inside(band.distances, n);
        return band;
    }
    const std::string count = std::to_string(n);
    Matrix places(Matrix::shape_type{n, band.distances.size()});
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t c = 0; c < band.distances.size(); ++c)
            places(i, c) = static_cast<double>(static_cast<std::ptrdiff_t>(i) + band.distances[c]);
    name_index("places[n, width]", "arange(" + count + ")[:, None] + distances", places, trace);
    band.mask = trace("mask[n, width]", "(places >= 0) & (places < " + count + ")", inside(band.distances, n));
    name_index("neighbours[n, width]", "where(mask, places, 0)", Matrix(xt::where(band.mask, places, 0.0)), trace);
    return band;
}

// ----------------------------------------------------------------------------------------------------------- attention

void expect_fit(const Matrix& queries, const Matrix& keys, const Matrix& values)
{
    constexpr std::string_view function = "restricted_attention";
    expect_agreement(function, "d_k", {"queries", queries, 1}, {"keys", keys, 1});
    expect_agreement(function, "n", {"queries", queries, 0}, {"keys", keys, 0});
    expect_agreement(function, "n", {"keys", keys, 0}, {"values", values, 0});
}

StepOptions describe(const RestrictedOptions& options)
{
    const auto number = [](const std::optional<std::size_t>& size) { return size ? std::to_string(*size) : "none"; };
    return {{"radius", number(options.neighbourhood.radius)},
            {"stride", number(options.neighbourhood.stride)},
            {"side", options.neighbourhood.side == Side::both ? "both" : "past"},
            {"scale", options.scale ? exact_text(*options.scale) : "1/sqrt(d_k)"}};
}

std::string scaling(const RestrictedOptions& options)
{
    return options.scale ? "scores * " + exact_text(*options.scale) : "scores / sqrt(keys.shape[-1])";
}

/// @name In the storage of the scores, which is most of what a long sequence takes
/// @{
Matrix times(Matrix scores, double scale)
{
    for (double& score : scores)
        score *= scale;
    return scores;
}

Matrix allowed(const Mask& mask, Matrix scores)
{
    for (std::size_t i = 0; i < scores.size(); ++i)
        if (!mask.data()[i])
            scores.data()[i] = -std::numeric_limits<double>::infinity();
    return scores;
}
/// @}

} // namespace

std::vector<std::ptrdiff_t> distances_within(const Neighbourhood& neighbourhood, std::size_t n)
{
    std::vector<std::ptrdiff_t> distances;
    for (const Progression& part : progressions(neighbourhood, n))
        for (std::size_t i = 0; i < part.count; ++i)
            distances.push_back(part.start + static_cast<std::ptrdiff_t>(i * part.step));
    return distances;
}

RestrictedAttention restricted_attention(const Matrix& queries, const Matrix& keys, const Matrix& values,
                                         const RestrictedOptions& options, const Trace& caller)
{
    expect_fit(queries, keys, values);
    const Trace trace = caller.module("restricted_attention", [&] { return describe(options); });
    trace.input("queries[n, d_k]", queries);
    trace.input("keys[n, d_k]", keys);
    trace.input("values[n, d_v]", values);
    Band band = named_band(options.neighbourhood, queries.shape(0), trace);

    // Compare every query with its neighbours.
    Matrix scores = trace("scores[n, width]", "where(mask, sum(queries[:, None, :] * keys[neighbours], axis=2), 0)",
                          banded_scores(queries, keys, band));

    // Keep the comparison's size independent of d_k.
    const double scale = options.scale.value_or(1.0 / std::sqrt(static_cast<double>(keys.shape(1))));
    Matrix scaled = trace(
        "scaled[n, width]", [&] { return scaling(options); }, times(std::move(scores), scale));

    // Beyond the ends there is nothing to attend to.
    Matrix masked = trace("masked[n, width]", "where(mask, scaled, -inf)", allowed(band.mask, std::move(scaled)));
    Matrix weights = trace("weights[n, width]", "softmax(masked)", softmax(std::move(masked)));

    // Take each neighbour's value in that proportion.
    Matrix context = trace("context[n, d_v]", "sum(weights[:, :, None] * values[neighbours], axis=1)",
                           sum_of_neighbours(weights, values, band));
    return {std::move(context), std::move(weights), std::move(band)};
}

} // namespace attn
