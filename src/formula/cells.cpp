#include "cells.hpp"

#include "attn/core/error.hpp"

#include <algorithm>
#include <system_error>
#include <thread>
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

Cells exact_cells(const Array& array)
{
    Cells cells = make_cells(array.shape);
    std::ranges::transform(array.values, cells.cells.begin(), [](double value) { return Rounded{value, 0}; });
    return cells;
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
            throw Error("the shapes ", left, " and ", right, " don't broadcast");
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

void in_parts(std::size_t count, double operations, const std::function<void(std::size_t begin, std::size_t end)>& work)
{
#ifndef __EMSCRIPTEN__
    constexpr double worth_a_thread = 1 << 21; // milliseconds
    const std::size_t processors = operations < 2 * worth_a_thread ? 1 : std::thread::hardware_concurrency();
    const std::size_t parts = std::min(count, std::max<std::size_t>(processors, 1));
    std::vector<std::thread> others;
    std::size_t begin = 0;
    try {
        for (std::size_t part = 1; part < parts; ++part) {
            const std::size_t end = count * part / parts;
            others.emplace_back(work, begin, end);
            begin = end;
        }
    } catch (const std::system_error&) { // no more threads: the rest is done here
    }
    work(begin, count);
    for (std::thread& other : others)
        other.join();
#else
    work(0, count);
#endif
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
