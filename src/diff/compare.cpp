// How far numbers are apart, and how that is said.

#include "compare.hpp"

#include "attn/core/choices.hpp"
#include "attn/mistakes/head_scope.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <span>

namespace attn::diff {
namespace {

constexpr Choice<DiffVerdict> verdicts[] = {
    {DiffVerdict::equal, "equal"},   {DiffVerdict::noise, "noise"}, {DiffVerdict::no_effect, "no effect"},
    {DiffVerdict::layout, "layout"}, {DiffVerdict::bug, "bug"},     {DiffVerdict::inherited, "inherited"}};

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

/// The word for the things along an axis: "query" for n.
std::string word_for_axis(const std::string& letter)
{
    static const std::map<std::string, std::string> words{
        {"b", "sequence"}, {"h", "head"}, {"n", "query"}, {"m", "key"}};
    const auto word = words.find(letter);
    return word == words.end() ? letter : word->second;
}

} // namespace

std::string_view name_of(DiffVerdict verdict) { return row_for<verdicts>(verdict).name; }

bool is_whole(double number) { return std::trunc(number) == number || std::isnan(number); }

bool are_counts(const Array& array)
{
    return std::ranges::all_of(array.values, [](double number) { return is_whole(number) && !std::isnan(number); });
}

std::size_t row_length(const Array& array) { return array.rank() == 0 ? 1 : array.shape.back(); }

bool is_empty_row(const Array& array, std::size_t begin)
{
    return std::ranges::all_of(std::span(array.values).subspan(begin, row_length(array)),
                               [](double x) { return x == 0; });
}

bool has_empty_row(const Array& array)
{
    for (std::size_t begin = 0; array.rank() > 0 && begin < array.size(); begin += row_length(array))
        if (is_empty_row(array, begin))
            return true;
    return false;
}

bool same_numbers(const Array& left, const Array& right)
{
    if (left.shape != right.shape)
        return false;
    if (&left == &right)
        return true;
    // A loop without an exit is as fast as memory; an exit per chunk ends it early where there is a difference.
    constexpr std::size_t chunk = 4096;
    for (std::size_t begin = 0; begin < left.size(); begin += chunk) {
        const std::size_t end = std::min(begin + chunk, left.size());
        bool differs = false;
        for (std::size_t i = begin; i < end; ++i)
            differs |= left.values[i] != right.values[i];
        for (std::size_t i = begin; differs && i < end; ++i)
            if (!same(left.values[i], right.values[i]))
                return false;
    }
    return true;
}

bool agrees(const Array& found, const Array& expected, const Tolerance& tolerance)
{
    if (found.shape != expected.shape)
        return false;
    for (std::size_t i = 0; i < found.size(); ++i)
        if (!(times_off(found.values[i], expected.values[i], tolerance.at(i)) <= 1))
            return false;
    return true;
}

Distance distance_of(const Array& found, const Array& reference, const Array& judged_by, const Tolerance& tolerance,
                     NumberType type)
{
    Distance distance;
    double dot = 0, found_square = 0, expected_square = 0, worst = -1;
    std::size_t worst_offset = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
        const double expected = reference.values[i], number = found.values[i];
        const double off = times_off(number, judged_by.values[i], tolerance.at(i));
        if (off > worst) {
            worst = off;
            worst_offset = i;
        }
        distance.beyond += off <= 1 ? 0 : 1;
        if (!same(number, expected)) {
            ++distance.differing;
            distance.nans += std::isnan(number) && !std::isnan(judged_by.values[i]) ? 1 : 0;
            distance.infinities += std::isinf(number) && number != judged_by.values[i] ? 1 : 0;
        }
        if (!std::isfinite(number) || !std::isfinite(expected))
            continue;
        const double absolute = std::abs(number - expected);
        distance.absolute = std::max(distance.absolute, absolute);
        if (expected != 0)
            distance.relative = std::max(distance.relative, absolute / std::abs(expected));
        dot += number * expected;
        found_square += number * number;
        expected_square += expected * expected;
    }
    if (found_square > 0 && expected_square > 0)
        distance.cosine = std::clamp(dot / std::sqrt(found_square) / std::sqrt(expected_square), -1.0, 1.0);
    else
        distance.cosine = found_square == expected_square ? 1 : 0;
    if (found.size() == 0)
        return distance;

    distance.worst = index_at(worst_offset, found.shape);
    distance.expected = reference.values[worst_offset];
    distance.found = found.values[worst_offset];
    distance.tolerance = tolerance.at(worst_offset);
    distance.typical = tolerance.typical;
    if (!same(distance.expected, distance.found))
        distance.ulps = std::isfinite(distance.expected) && std::isfinite(distance.found)
                            ? std::abs(distance.expected - distance.found) / spacing_at(distance.expected, type)
                            : std::numeric_limits<double>::infinity();
    return distance;
}

Window window_around(const Shape& index, const Array& found, const Array& reference)
{
    constexpr std::size_t most = 16;
    Window window{.begin = index, .expected = {}, .found = {}};
    Shape shape(index.size(), 1), strides(index.size(), 1);
    for (std::size_t axis = index.size(); axis-- > 0;) {
        if (axis + 1 < index.size())
            strides[axis] = strides[axis + 1] * reference.shape[axis + 1];
        if (axis + 2 < index.size())
            continue;
        const std::size_t size = reference.shape[axis];
        shape[axis] = std::min(most, size);
        const std::size_t before = std::min(index[axis], shape[axis] / 2);
        window.begin[axis] = std::min(index[axis] - before, size - shape[axis]);
    }
    std::size_t first = 0;
    for (std::size_t axis = 0; axis < index.size(); ++axis)
        first += window.begin[axis] * strides[axis];
    const std::size_t columns = shape.empty() ? 1 : shape.back(), rows = element_count(shape) / columns;
    const std::size_t row_stride = shape.size() < 2 ? 0 : strides[shape.size() - 2];
    window.expected.shape = window.found.shape = {rows, columns};
    for (std::size_t i = 0; i < rows; ++i)
        for (std::size_t j = 0; j < columns; ++j) {
            window.expected.values.push_back(reference.values[first + i * row_stride + j]);
            window.found.values.push_back(found.values[first + i * row_stride + j]);
        }
    return window;
}

std::string place_of(const Step& step, const Shape& index)
{
    const auto head = mistakes::head_scope(step.path);
    std::string place = head ? fmt::format("head {}", head->number) : "";
    if (step.axes.size() != index.size())
        return place;
    for (std::size_t axis = 0; axis < index.size(); ++axis)
        place += fmt::format("{}{} {}", place.empty() ? "" : ", ", word_for_axis(step.axes[axis]), index[axis]);
    return place;
}

} // namespace attn::diff
