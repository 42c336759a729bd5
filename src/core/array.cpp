#include "attn/core/array.hpp"

#include "attn/core/error.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdint>
#include <locale>
#include <numeric>
#include <sstream>
#include <utility>

namespace attn {

bool identical(const Array& left, const Array& right)
{
    const auto same_bits = [](double a, double b) {
        return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
    };
    return left.type == right.type && left.shape == right.shape &&
           std::ranges::equal(left.values, right.values, same_bits);
}

std::size_t element_count(const Shape& shape)
{
    if (std::ranges::find(shape, std::size_t{0}) != shape.end())
        return 0;
    std::size_t count = 1;
    for (const std::size_t size : shape)
        if (__builtin_mul_overflow(count, size, &count))
            throw Error("the shape ", shape, " has more elements than a computer can count");
    return count;
}

Array permuted(const Array& array, const std::vector<std::size_t>& order)
{
    std::vector<std::size_t> sorted = order, axes(array.rank());
    std::ranges::sort(sorted);
    std::iota(axes.begin(), axes.end(), std::size_t{0});
    if (sorted != axes)
        throw Error("permute needs each of the ", array.rank(), " axes once");

    std::vector<std::size_t> strides(order.size()), own(order.size(), 1); // of the result's axes, and of the array's
    for (std::size_t axis = order.size(); axis-- > 1;)
        own[axis - 1] = own[axis] * array.shape[axis];
    Array result{Shape(order.size()), {}, array.type};
    for (std::size_t i = 0; i < order.size(); ++i) {
        result.shape[i] = array.shape[order[i]];
        strides[i] = own[order[i]];
    }

    // Walk the result in order, and keep the place in the array up to date.
    result.values.reserve(array.size());
    Shape index(order.size(), 0);
    std::size_t place = 0;
    while (result.values.size() < array.size()) {
        result.values.push_back(array.values[place]);
        for (std::size_t axis = order.size(); axis-- > 0;) {
            place += strides[axis];
            if (++index[axis] < result.shape[axis])
                break;
            place -= strides[axis] * result.shape[axis];
            index[axis] = 0;
        }
    }
    return result;
}

std::string to_string(const Shape& shape)
{
    std::string text = "(";
    for (std::size_t axis = 0; axis < shape.size(); ++axis)
        text += (axis == 0 ? "" : ", ") + std::to_string(shape[axis]);
    return text + (shape.size() == 1 ? ",)" : ")");
}

std::string bracketed(const Shape& index, std::string_view separator)
{
    std::string text;
    for (const std::size_t i : index)
        text.append(text.empty() ? "[" : separator).append(std::to_string(i));
    return text.empty() ? text : text + "]";
}

std::string exact_text(double number)
{
    char text[32];
    return {text, std::to_chars(text, text + sizeof text, number).ptr};
}

// Not std::from_chars, which Clang's standard library does not have for double; and that library's stream would read on into
// letters that follow, so the stream gets the number alone.
std::optional<double> take_number(std::string_view& text)
{
    std::size_t at = text.starts_with('-') ? 1 : 0;
    const auto skip = [&](std::string_view characters) {
        const std::size_t end = std::min(text.find_first_not_of(characters, at), text.size());
        return end - std::exchange(at, end);
    };
    const auto skip_one_of = [&](std::string_view characters) {
        at += at < text.size() && characters.find(text[at]) != std::string_view::npos ? 1 : 0;
    };
    constexpr std::string_view digits = "0123456789";
    std::size_t count = skip(digits);
    skip_one_of(".");
    count += skip(digits);
    if (count == 0)
        return std::nullopt;
    const std::size_t exponent = at;
    skip_one_of("eE");
    if (at > exponent) {
        skip_one_of("+-");
        if (skip(digits) == 0)
            at = exponent;
    }
    std::istringstream stream{std::string(text.substr(0, at))};
    stream.imbue(std::locale::classic());
    double number = 0;
    const bool is_zero = text.substr(0, exponent).find_first_of("123456789") == std::string_view::npos;
    if (!(stream >> number) || (number == 0 && !is_zero))
        return std::nullopt;
    text.remove_prefix(at);
    return number;
}

Shape index_at(std::size_t offset, const Shape& shape)
{
    Shape index(shape.size());
    for (std::size_t axis = shape.size(); axis-- > 0;) {
        index[axis] = offset % shape[axis];
        offset /= shape[axis];
    }
    return index;
}

} // namespace attn
