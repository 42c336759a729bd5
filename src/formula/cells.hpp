#pragma once

#include "attn/array.hpp"

#include "rounded.hpp"

#include <vector>

namespace attn {

/// A tensor while a formula is being computed.
struct Cells {
    Shape shape;
    std::vector<Rounded> cells; ///< row-major
    bool truth = false;         ///< true and false rather than numbers

    std::size_t rank() const { return shape.size(); }
};

/// Zeros of a shape.
/// @throws Error where that is more than a formula may take
Cells make_cells(Shape shape);

/// How far apart neighbours along each axis are in row-major order.
Shape strides_of(const Shape& shape);

/// The shape that two shapes broadcast to, by NumPy's rule.
/// @throws Error where they don't
Shape broadcast(const Shape& left, const Shape& right);

/// A tensor's strides seen as one of a broadcast shape: 0 along the axes that it is repeated along.
Shape broadcast_strides(const Shape& shape, const Shape& to);

/// Calls visit(result offset, left offset, right offset) for every index of a shape.
template <class Visit>
void for_each_index(const Shape& shape, const Shape& left_strides, const Shape& right_strides, const Visit& visit)
{
    Shape index(shape.size());
    std::size_t left = 0, right = 0;
    const std::size_t count = element_count(shape);
    for (std::size_t offset = 0; offset < count; ++offset) {
        visit(offset, left, right);
        for (std::size_t axis = shape.size(); axis-- > 0;) {
            left += left_strides[axis];
            right += right_strides[axis];
            if (++index[axis] < shape[axis])
                break;
            left -= left_strides[axis] * shape[axis];
            right -= right_strides[axis] * shape[axis];
            index[axis] = 0;
        }
    }
}

/// An axis of a tensor as three loops: outer, along the axis, inner.
struct AxisLoops {
    AxisLoops(const Shape& shape, std::size_t axis);

    std::size_t at(std::size_t before, std::size_t along, std::size_t after) const
    {
        return (before * length + along) * inner + after;
    }

    std::size_t outer = 1, length = 1, inner = 1;
};

} // namespace attn
