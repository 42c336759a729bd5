// The right numbers in the wrong places, recognised.

#include "layouts.hpp"

#include "name_rules.hpp"

#include "attn/core/budget.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

namespace attn::diff {
namespace {

using Axes = std::vector<std::size_t>;

Array reshaped(Array array, const Shape& shape)
{
    array.shape = shape;
    return array;
}

std::string axis_text(const Step& step, std::size_t axis)
{
    return step.axes.empty() ? std::to_string(axis) : step.axes[axis];
}

std::string letters_of(const Step& step, const Axes& order)
{
    std::string text = "(";
    for (const std::size_t axis : order)
        text += (text.size() == 1 ? "" : ", ") + axis_text(step, axis);
    return text + ')';
}

/// The array with its axes in another order.
Array with_axes(const Array& array, const Axes& order)
{
    constexpr double operations_each = 12; // there can be 120 orders of many numbers
    spend(operations_each * static_cast<double>(array.size()));
    return permuted(array, order);
}

Axes counted(std::size_t count)
{
    Axes axes(count);
    std::iota(axes.begin(), axes.end(), std::size_t{0});
    return axes;
}

bool is_swap_of(const Axes& order, std::size_t first, std::size_t second)
{
    Axes swapped = counted(order.size());
    std::swap(swapped[first], swapped[second]);
    return order == swapped;
}

/// Where each axis of the expected array went, in words.
/// @param order  the expected array is permuted(found, order)
std::string permutation_text(const Step& step, const Axes& order)
{
    const std::size_t rank = order.size();
    Axes found(rank);
    for (std::size_t i = 0; i < rank; ++i)
        found[order[i]] = i;
    if (is_swap_of(order, rank - 2, rank - 1))
        return rank == 2 ? "is the reference's transpose"
                         : "is the reference's transpose: its last two axes are swapped";
    const std::string both = letters_of(step, found) + ", the reference " + letters_of(step, counted(rank));
    if (!step.axes.empty() && step.axes[0] == "b" && is_swap_of(order, 0, 1))
        return "is sequence-first " + both + " is batch-first";
    return "has its axes in the order " + both;
}

constexpr std::size_t most_axes_permuted = 5;

/// The axes in another order, and then, of another shape, merged or split.
std::optional<Layout> as_axes(const Array& found, const Expected& expected)
{
    const Shape& shape = expected.value.shape;
    if (found.size() != expected.value.size() || found.rank() > most_axes_permuted)
        return std::nullopt;
    const std::string shapes = to_string(found.shape) + " instead of " + to_string(shape);
    for (const bool is_permutation : {true, false}) {
        Axes order = counted(found.rank());
        do {
            Shape permuted_shape;
            for (const std::size_t axis : order)
                permuted_shape.push_back(found.shape[axis]);
            const bool is_sorted = std::ranges::is_sorted(order);
            if (is_permutation ? is_sorted || permuted_shape != shape : found.shape == shape)
                continue;
            Array moved = reshaped(with_axes(found, order), shape);
            if (!agrees(moved, expected.value, expected.tolerance))
                continue;
            if (is_permutation)
                return Layout{permutation_text(expected.step, order), std::move(moved), true};
            if (is_sorted)
                return Layout{"is the reference in another shape: " + shapes, std::move(moved)};
            return Layout{
                fmt::format("is the reference in another shape and order: {}, with the axes moved; permute(x, {}) "
                            "puts them right",
                            shapes, fmt::join(order, ", ")),
                std::move(moved)};
        } while (std::ranges::next_permutation(order).found);
    }
    return std::nullopt;
}

/// Heads side by side along the last axis, n rows of h times d, put together another way.
std::optional<Layout> as_heads(const Array& found, const Expected& expected)
{
    const Shape& shape = expected.value.shape;
    const std::size_t heads = expected.heads;
    if (heads < 2 || shape.size() < 2 || found.shape != shape || shape.back() % heads != 0)
        return std::nullopt;
    const std::size_t d = shape.back() / heads, rows = shape[shape.size() - 2];
    std::size_t batch = 1;
    for (std::size_t i = 0; i + 2 < shape.size(); ++i)
        batch *= shape[i];
    const auto tried = [&](const Shape& apart, const Axes& order, const char* text) -> std::optional<Layout> {
        Array moved = reshaped(with_axes(reshaped(found, apart), order), shape);
        if (!agrees(moved, expected.value, expected.tolerance))
            return std::nullopt;
        return Layout{text, std::move(moved)};
    };
    if (auto layout = tried({batch, heads, rows, d}, {0, 2, 1, 3},
                            "has its heads merged without the permute: the axis of heads stands before the tokens"))
        return layout;
    if (auto layout = tried({batch, rows, heads, d}, {0, 2, 1, 3},
                            "has its heads split without the permute: the tokens stand before the axis of heads"))
        return layout;
    return tried({batch, rows, d, heads}, {0, 1, 3, 2},
                 "has the features of its heads interleaved, one of each in turn, instead of head after head");
}

/// An axis seen as equal pieces, each of so many numbers, which stand in the array in stretches of a length.
struct Pieces {
    std::size_t count, numbers, length;

    Pieces(const Shape& shape, std::size_t axis, std::size_t pieces)
        : count(pieces),
          numbers(element_count(shape) / pieces),
          length(element_count(Shape(shape.begin() + static_cast<std::ptrdiff_t>(axis), shape.end())) / pieces)
    {
    }

    /// The offset of one number of a piece in the array.
    std::size_t at(std::size_t piece, std::size_t i) const
    {
        return (i / length * count + piece) * length + i % length;
    }
};

/// Which piece of the expected array each piece of the found one is.
std::optional<Axes> order_of(const Pieces& pieces, const Array& found, const Expected& expected)
{
    const auto is_same = [&](std::size_t mine, std::size_t theirs) {
        for (std::size_t i = 0; i < pieces.numbers; ++i) {
            const std::size_t at = pieces.at(theirs, i);
            if (!(times_off(found.values[pieces.at(mine, i)], expected.value.values[at], expected.tolerance.at(at)) <=
                  1))
                return false;
        }
        return true;
    };
    Axes order;
    std::vector<bool> taken(pieces.count, false);
    for (std::size_t mine = 0; mine < pieces.count; ++mine) {
        std::size_t theirs = 0;
        while (theirs < pieces.count && (taken[theirs] || !is_same(mine, theirs)))
            ++theirs;
        if (theirs == pieces.count)
            return std::nullopt;
        taken[theirs] = true;
        order.push_back(theirs);
    }
    return order;
}

std::string order_text(const Axes& order)
{
    if (std::ranges::is_sorted(order, std::greater<>()))
        return "backwards";
    constexpr std::size_t most = 8;
    std::string text = "in the order ";
    for (std::size_t i = 0; i < std::min(order.size(), most); ++i)
        text += (i == 0 ? "" : ", ") + std::to_string(order[i]);
    return text + (order.size() > most ? ", …" : "");
}

/// The array with its pieces in the expected order, where there is one.
std::optional<Layout> put_back(const Pieces& pieces, const Array& found, const Expected& expected,
                               const std::string& what)
{
    const std::optional<Axes> order = order_of(pieces, found, expected);
    if (!order)
        return std::nullopt;
    Array result = found;
    for (std::size_t piece = 0; piece < pieces.count; ++piece)
        for (std::size_t i = 0; i < pieces.numbers; ++i)
            result.values[pieces.at((*order)[piece], i)] = found.values[pieces.at(piece, i)];
    return Layout{what + order_text(*order), std::move(result)};
}

std::optional<Layout> as_order(const Array& found, const Expected& expected)
{
    constexpr std::size_t most_pieces = 4096;
    if (found.shape != expected.value.shape)
        return std::nullopt;
    const Shape& shape = found.shape;
    if (expected.heads > 1 && !shape.empty() && shape.back() % expected.heads == 0)
        if (auto layout = put_back({shape, shape.size() - 1, expected.heads}, found, expected, "has its heads "))
            return layout;
    for (std::size_t axis = 0; axis < shape.size(); ++axis)
        if (shape[axis] <= most_pieces)
            if (auto layout = put_back({shape, axis, shape[axis]}, found, expected,
                                       "is the reference with axis " + axis_text(expected.step, axis) + ' '))
                return layout;
    return std::nullopt;
}

/// The entries of an axis one place earlier or later, with one that is another: a target that is not shifted right.
std::optional<Layout> as_shift(const Array& found, const Expected& expected)
{
    constexpr std::size_t fewest = 3; // entries; of two, one is too few to tell
    if (found.shape != expected.value.shape || found.type == ElementType::boolean)
        return std::nullopt;
    const std::size_t rank = found.rank();
    for (std::size_t axis = 0; axis + 1 < std::max<std::size_t>(rank, 2) && axis < rank; ++axis) {
        const std::size_t count = found.shape[axis];
        if (count < fewest)
            continue;
        const auto agrees_at = [&](std::size_t mine, std::size_t theirs) {
            Tolerance tolerance = expected.tolerance;
            if (!tolerance.each.empty())
                tolerance.each =
                    range_of({found.shape, std::move(tolerance.each)}, axis, theirs, theirs + count - 1).values;
            return agrees(range_of(found, axis, mine, mine + count - 1),
                          range_of(expected.value, axis, theirs, theirs + count - 1), tolerance);
        };
        if (agrees_at(0, 0) || agrees_at(1, 1))
            continue;
        for (const auto& [mine, theirs, place] : {std::tuple(0, 1, "earlier"), std::tuple(1, 0, "later")})
            if (agrees_at(mine, theirs))
                return Layout{"is the reference with axis " + axis_text(expected.step, axis) + " one place " + place,
                              {}};
    }
    return std::nullopt;
}

std::optional<Layout> as_complement(const Array& found, const Expected& expected)
{
    if (expected.value.type != ElementType::boolean || found.shape != expected.value.shape)
        return std::nullopt;
    Array other = found;
    for (double& value : other.values)
        value = 1 - value;
    if (!same_numbers(other, expected.value))
        return std::nullopt;
    return Layout{"is the reference with true and false exchanged: here true is where a query can attend",
                  std::move(other)};
}

std::optional<Layout> as_shuffle(const Array& found, const Expected& expected)
{
    if (found.size() != expected.value.size() || found.size() < 2)
        return std::nullopt;
    const auto sorted = [](const Array& array) {
        std::vector<double> values = array.values;
        std::ranges::sort(values);
        return values;
    };
    const auto has_nan = [](const Array& array) {
        return std::ranges::any_of(array.values, [](double value) { return std::isnan(value); });
    };
    if (has_nan(found) || has_nan(expected.value))
        return std::nullopt;
    const std::vector<double> mine = sorted(found), theirs = sorted(expected.value);
    const double tolerance = expected.tolerance.common;
    if (tolerance * static_cast<double>(mine.size()) >= largest_of(expected.value))
        return std::nullopt; // so dense that any numbers are there
    for (std::size_t i = 0; i < mine.size(); ++i)
        if (!(times_off(mine[i], theirs[i], tolerance) <= 1))
            return std::nullopt;
    return Layout{"has the reference's numbers, each as often, in other places", {}};
}

} // namespace

std::optional<Layout> recognise(const Array& found, const Expected& expected)
{
    if (found.size() == 0)
        return std::nullopt;
    for (const auto& attempt : {as_complement, as_axes, as_heads, as_order, as_shift, as_shuffle})
        if (auto layout = attempt(found, expected))
            return layout;
    return std::nullopt;
}

std::optional<std::string> recognise_part(const Array& found, const Expected& expected)
{
    const Shape &mine = found.shape, &theirs = expected.value.shape;
    if (mine.size() != theirs.size())
        return std::nullopt;
    std::vector<std::size_t> other;
    for (std::size_t axis = 0; axis < mine.size(); ++axis)
        if (mine[axis] != theirs[axis])
            other.push_back(axis);
    if (other.size() != 1)
        return std::nullopt;
    const std::size_t axis = other.front();
    const bool is_short = mine[axis] < theirs[axis];
    const Array &small = is_short ? found : expected.value, &large = is_short ? expected.value : found;
    const auto is_at = [&](std::size_t begin) {
        const std::size_t end = begin + small.shape[axis];
        Tolerance tolerance = expected.tolerance;
        if (is_short && !tolerance.each.empty())
            tolerance.each = range_of({theirs, std::move(tolerance.each)}, axis, begin, end).values;
        return agrees(small, range_of(large, axis, begin, end), tolerance);
    };
    const std::string text = std::string(is_short ? "is short" : "is long") + ": it has " + std::to_string(mine[axis]) +
                             " of " + (expected.step.axes.empty() ? "axis " : "") + axis_text(expected.step, axis) +
                             ", expected " + std::to_string(theirs[axis]) + ", in the shape " + to_string(mine) +
                             " instead of " + to_string(theirs);
    const auto about = [&](const std::string& which) {
        return text + (is_short ? "; these are the reference's " + which : "; the " + which + " are the reference's");
    };
    if (small.size() > 0 && is_at(0))
        return about("first");
    if (small.size() > 0 && is_at(large.shape[axis] - small.shape[axis]))
        return about("last");
    return text;
}

} // namespace attn::diff
