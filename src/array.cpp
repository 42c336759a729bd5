#include "attn/array.hpp"

#include "attn/error.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdint>

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
            throw Error("the shape " + to_string(shape) + " has more elements than a computer can count");
    return count;
}

std::string to_string(const Shape& shape)
{
    std::string text = "(";
    for (std::size_t axis = 0; axis < shape.size(); ++axis)
        text += (axis == 0 ? "" : ", ") + std::to_string(shape[axis]);
    return text + (shape.size() == 1 ? ",)" : ")");
}

std::string exact_text(double number)
{
    char text[32];
    return {text, std::to_chars(text, text + sizeof text, number).ptr};
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
