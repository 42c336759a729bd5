#include "cells.hpp"

#include "attn/error.hpp"

#include <algorithm>

namespace attn {

Cells make_cells(Shape shape)
{
    constexpr std::size_t most = std::size_t{1} << 25; // half a GiB of them: the scores of 5792 tokens
    const std::size_t count = element_count(shape);
    if (count > most)
        throw Error("would make a tensor " + to_string(shape) + ", more than a formula may take");
    return {std::move(shape), std::vector<Rounded>(count)};
}

Shape strides_of(const Shape& shape)
{
    Shape strides(shape.size());
    std::size_t stride = 1;
    for (std::size_t axis = shape.size(); axis-- > 0;) {
        strides[axis] = stride;
        stride *= shape[axis];
    }
    return strides;
}

Shape broadcast(const Shape& left, const Shape& right)
{
    const Shape& longer = left.size() >= right.size() ? left : right;
    const Shape& shorter = left.size() >= right.size() ? right : left;
    Shape both = longer;
    const std::size_t shift = longer.size() - shorter.size();
    for (std::size_t axis = 0; axis < shorter.size(); ++axis) {
        std::size_t& size = both[shift + axis];
        if (size != shorter[axis] && size != 1 && shorter[axis] != 1)
            throw Error("the shapes " + to_string(left) + " and " + to_string(right) + " don't broadcast");
        size = size == 1 ? shorter[axis] : size;
    }
    return both;
}

Shape broadcast_strides(const Shape& shape, const Shape& to)
{
    Shape strides(to.size(), 0);
    const Shape own = strides_of(shape);
    const std::size_t shift = to.size() - shape.size();
    for (std::size_t axis = 0; axis < shape.size(); ++axis)
        strides[shift + axis] = shape[axis] == 1 ? 0 : own[axis];
    return strides;
}

AxisLoops::AxisLoops(const Shape& shape, std::size_t axis) : length(shape[axis])
{
    for (std::size_t before = 0; before < axis; ++before)
        outer *= shape[before];
    for (std::size_t after = axis + 1; after < shape.size(); ++after)
        inner *= shape[after];
}

} // namespace attn
