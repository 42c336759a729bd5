// How far numbers are apart, how that is said, and of which type they are.

#include "compare.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>

namespace attn {
namespace {

/// How many binary digits a type keeps, and the exponents of its smallest normal and its largest number.
struct Format {
    int digits, smallest, largest;
};

Format format_of(NumberType type)
{
    switch (type) {
    case NumberType::float64:
        return {53, -1022, 1023};
    case NumberType::float32:
        return {24, -126, 127};
    case NumberType::float16:
        return {11, -14, 15};
    case NumberType::bfloat16:
        return {8, -126, 127};
    }
    return {53, -1022, 1023};
}

/// True for a number that the type holds as it is.
bool is_exactly(const Format& format, double number)
{
    const auto bits = std::bit_cast<std::uint64_t>(number);
    const int exponent = static_cast<int>((bits >> 52) & 2047) - 1023;
    if (exponent == 1024 || (bits << 1) == 0) // infinity and NaN, zero
        return true;
    if (exponent > format.largest)
        return false;
    const int dropped = 53 - format.digits + std::max(0, format.smallest - exponent);
    if (dropped > 52)
        return std::abs(number) == std::ldexp(1.0, format.smallest - format.digits + 1); // or none of it is left
    return (bits & ((std::uint64_t{1} << dropped) - 1)) == 0;
}

bool is_exactly(NumberType type, const Array& array)
{
    const Format format = format_of(type);
    return std::ranges::all_of(array.values, [&](double number) { return is_exactly(format, number); });
}

/// The distance to the next number of the type.
double spacing_at(double number, NumberType type)
{
    const Format format = format_of(type);
    const int exponent = number == 0 ? format.smallest : std::max(std::ilogb(number), format.smallest);
    return std::ldexp(1.0, exponent - format.digits + 1);
}

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

/// The numbers in front of a scope: {"head", "3"} of encoder.head.3.scores.
std::string head_of(const std::string& path)
{
    const std::string scope = "head.";
    std::size_t at = path.rfind(scope);
    while (at != std::string::npos && at > 0 && path[at - 1] != '.')
        at = path.rfind(scope, at - 1);
    if (at == std::string::npos)
        return "";
    const std::size_t begin = at + scope.size(), end = path.find('.', begin);
    const std::string number = path.substr(begin, end - begin);
    const bool is_number = !number.empty() && std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
    return end != std::string::npos && is_number ? "head " + number : "";
}

} // namespace

std::string_view name_of(NumberType type)
{
    constexpr std::string_view names[] = {"float64", "float32", "float16", "bfloat16"};
    return names[static_cast<std::size_t>(type)];
}

double roundoff_of(NumberType type) { return std::ldexp(1.0, -format_of(type).digits); }

std::string number_text(double number, NumberType type)
{
    constexpr int digits[] = {17, 9, 5, 4};
    if (std::isnan(number))
        return "nan";
    return type == NumberType::float64 ? exact_text(number)
                                       : fmt::format("{:.{}g}", number, digits[static_cast<std::size_t>(type)]);
}

std::string_view name_of(DiffVerdict verdict)
{
    constexpr std::string_view names[] = {"equal", "noise", "layout", "bug", "inherited"};
    return names[static_cast<std::size_t>(verdict)];
}

double smallest_of(NumberType type)
{
    const Format format = format_of(type);
    return std::ldexp(1.0, format.smallest - format.digits + 1);
}

bool same_numbers(const Array& left, const Array& right)
{
    if (left.shape != right.shape)
        return false;
    if (&left == &right)
        return true;
    // Without a way out of the loop it is as fast as memory; with one a chunk, a difference ends it early.
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

double times_off(double found, double expected, double tolerance)
{
    if (same(found, expected))
        return 0;
    if (!std::isfinite(found) || !std::isfinite(expected))
        return std::numeric_limits<double>::infinity();
    return std::abs(found - expected) / tolerance; // infinite where no error at all is allowed
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
            distance.nans += std::isnan(number) ? 1 : 0;
            distance.infinities += std::isinf(number) ? 1 : 0;
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
    if (!same(distance.expected, distance.found))
        distance.ulps = std::isfinite(distance.expected) && std::isfinite(distance.found)
                            ? std::abs(distance.expected - distance.found) / spacing_at(distance.expected, type)
                            : std::numeric_limits<double>::infinity();
    return distance;
}

void TypeEvidence::add(const Array& found, const Array& reference)
{
    if (reference.type != ElementType::real || found.size() == 0)
        return;
    bool counts = false;
    for (const NumberType type : {NumberType::float32, NumberType::float16, NumberType::bfloat16}) {
        const bool is_proof = !is_exactly(type, reference);
        const bool is_of_type = is_exactly(type, found);
        counts = counts || is_proof;
        seen(type).all = seen(type).all && is_of_type;
        seen(type).is_proof = seen(type).is_proof || is_proof;
        seen(type).arrays += is_of_type && is_proof ? 1 : 0;
    }
    arrays_ += counts ? 1 : 0;
}

NumberType TypeEvidence::type() const
{
    for (const NumberType type : {NumberType::bfloat16, NumberType::float16, NumberType::float32})
        if (seen(type).all && seen(type).is_proof)
            return type;
    return NumberType::float64;
}

std::string TypeEvidence::hint() const
{
    const std::size_t rounded = seen(NumberType::float32).arrays;
    if (type() != NumberType::float64 || rounded == 0)
        return "";
    return std::to_string(rounded) + " of " + std::to_string(arrays_) +
           " arrays hold nothing but float32 numbers, the others do not: if the program computed in float32, say so "
           "with --type float32";
}

std::string word_for_axis(const std::string& letter)
{
    static const std::map<std::string, std::string> words{
        {"b", "sequence"}, {"h", "head"}, {"n", "query"}, {"m", "key"}};
    const auto word = words.find(letter);
    return word == words.end() ? letter : word->second;
}

std::string place_of(const Step& step, const Shape& index)
{
    std::string place = head_of(step.path);
    if (step.axes.size() != index.size())
        return place;
    for (std::size_t axis = 0; axis < index.size(); ++axis)
        place += fmt::format("{}{} {}", place.empty() ? "" : ", ", word_for_axis(step.axes[axis]), index[axis]);
    return place;
}

std::string cell_of(const std::string& path, const Shape& index)
{
    return index.empty() ? path : fmt::format("{}[{}]", path, fmt::join(index, ","));
}

} // namespace attn
