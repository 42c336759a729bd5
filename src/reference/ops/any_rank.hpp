#pragma once

#include "attn/core/shape.hpp"
#include "attn/core/tensor.hpp"

#include <algorithm>
#include <string>
#include <type_traits>

/// Containers of any rank, for the operations on terms.
namespace attn {

template <class T>
auto* data_of(T& x)
{
    if constexpr (std::is_arithmetic_v<std::remove_const_t<T>>)
        return &x;
    else
        return x.data();
}

/// A container of a shape, whose numbers are still to be written.
template <class T>
T unwritten(const Shape& shape)
{
    if constexpr (std::is_arithmetic_v<T>) {
        return T();
    } else {
        typename T::shape_type sizes{};
        std::ranges::copy(shape, sizes.begin());
        return T(sizes);
    }
}

template <class T, class Numbers>
T in_shape(const Shape& shape, const Numbers& numbers)
{
    T result = unwritten<T>(shape);
    std::copy_n(numbers.begin(), numbers.size(), data_of(result));
    return result;
}

/// The axis from the front, of one that can be counted from the back.
inline std::size_t counted(int axis, std::size_t axes)
{
    const int from_front = axis < 0 ? axis + static_cast<int>(axes) : axis;
    if (from_front < 0 || from_front >= static_cast<int>(axes))
        throw ShapeError("there is no axis ", axis, " of ", axes);
    return static_cast<std::size_t>(from_front);
}

inline std::string axis_text(int axis) { return "axis=" + std::to_string(axis); }

/// A shape seen from one of its axes: how many numbers there are of those before it, of it, and of those after it.
struct Along {
    std::size_t before = 1, size = 1, after = 1;

    Along(const Shape& shape, std::size_t axis)
    {
        for (std::size_t i = 0; i < shape.size(); ++i)
            (i < axis ? before : i == axis ? size : after) *= shape[i];
    }
};

} // namespace attn
