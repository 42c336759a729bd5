#include "cells.hpp"

#include "attn/core/error.hpp"

#include <utility>

namespace attn::formula {

Cells make_cells(const Shape& shape)
{
    constexpr double operations_each = 8;
    const std::size_t count = element_count(shape);
    spend(operations_each * static_cast<double>(count));
    TakenMemory memory(static_cast<double>(count) * sizeof(Rounded));
    return {shape, std::vector<Rounded>(count), std::move(memory)};
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

std::size_t offset_of(const Shape& index, const Shape& shape)
{
    std::size_t offset = 0;
    for (std::size_t axis = 0; axis < shape.size(); ++axis)
        offset = offset * shape[axis] + index[axis];
    return offset;
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

CellView broadcast_view(const Shape& shape, const Shape& to)
{
    CellView view{0, Shape(to.size(), 0)};
    const Shape own = strides_of(shape);
    const std::size_t shift = to.size() - shape.size();
    for (std::size_t axis = 0; axis < shape.size(); ++axis)
        view.strides[shift + axis] = shape[axis] == 1 ? 0 : own[axis];
    return view;
}

std::optional<std::size_t> source(const Loop& loop, std::size_t operand, std::size_t offset)
{
    const CellView& from = loop.from[operand];
    if (offset < loop.to.first)
        return std::nullopt;
    std::size_t rest = offset - loop.to.first, found = from.first;
    for (std::size_t axis = 0; axis < loop.shape.size(); ++axis) {
        const std::size_t stride = loop.to.strides[axis], i = stride == 0 ? 0 : rest / stride;
        if (i >= loop.shape[axis])
            return std::nullopt;
        rest -= i * stride;
        found += i * from.strides[axis];
    }
    return rest == 0 ? std::optional(found) : std::nullopt;
}

} // namespace attn::formula
