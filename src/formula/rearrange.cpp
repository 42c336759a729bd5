#include "operations.hpp"

#include "attn/error.hpp"

#include <algorithm>
#include <numeric>

// The operations that compute nothing: the same numbers at other places.

namespace attn {

Cells permuted(const Cells& x, const std::vector<std::size_t>& order)
{
    std::vector<std::size_t> sorted = order;
    std::ranges::sort(sorted);
    for (std::size_t axis = 0; axis < sorted.size(); ++axis)
        if (sorted[axis] != axis || sorted.size() != x.rank())
            throw Error("permute wants each of the " + std::to_string(x.rank()) + " axes once");

    const Shape strides = strides_of(x.shape);
    Shape shape(x.rank()), from(x.rank());
    for (std::size_t axis = 0; axis < order.size(); ++axis) {
        shape[axis] = x.shape[order[axis]];
        from[axis] = strides[order[axis]];
    }
    Cells result = make_cells(shape);
    result.truth = x.truth;
    for_each_index(shape, from, from,
                   [&](std::size_t at, std::size_t source, std::size_t) { result.cells[at] = x.cells[source]; });
    return result;
}

Cells transposed(const Cells& x)
{
    if (x.rank() < 2)
        return x;
    std::vector<std::size_t> order(x.rank());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::swap(order[x.rank() - 1], order[x.rank() - 2]);
    return permuted(x, order);
}

Cells indexed(const Cells& x, const std::vector<Range>& ranges)
{
    // Walk from x to the result axis by axis: each range takes one axis of x, a new axis takes none.
    const Shape strides = strides_of(x.shape);
    Shape shape, steps;
    std::size_t first = 0, axis = 0;
    for (const Range& range : ranges) {
        if (range.kind == Range::Kind::new_axis) {
            shape.push_back(1);
            steps.push_back(0);
            continue;
        }
        if (range.count > 0)
            first += static_cast<std::size_t>(range.start) * strides[axis];
        if (range.kind == Range::Kind::slice) {
            shape.push_back(static_cast<std::size_t>(range.count));
            steps.push_back(static_cast<std::size_t>(range.step) * strides[axis]); // may wrap: so does its sum, back
        }
        ++axis;
    }
    for (; axis < x.rank(); ++axis) {
        shape.push_back(x.shape[axis]);
        steps.push_back(strides[axis]);
    }
    Cells result = make_cells(shape);
    result.truth = x.truth;
    for_each_index(shape, steps, steps,
                   [&](std::size_t at, std::size_t from, std::size_t) { result.cells[at] = x.cells[first + from]; });
    return result;
}

Cells gathered(const Cells& table, const Cells& ids)
{
    if (table.rank() == 0)
        throw Error("a single number has no rows to gather");
    const std::size_t rows = table.shape[0];
    const std::size_t width = rows == 0 ? 0 : table.cells.size() / rows;
    Shape shape = ids.shape;
    shape.insert(shape.end(), table.shape.begin() + 1, table.shape.end());
    Cells result = make_cells(shape);
    for (std::size_t i = 0; i < ids.cells.size(); ++i) {
        const double id = ids.cells[i].value;
        if (!(id >= 0 && id < static_cast<double>(rows)) || id != std::trunc(id))
            throw Error("there is no row " + std::to_string(id) + " in a table " + to_string(table.shape));
        std::copy_n(table.cells.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(id) * width), width,
                    result.cells.begin() + static_cast<std::ptrdiff_t>(i * width));
    }
    return result;
}

Cells where(const Cells& condition, const Cells& yes, const Cells& no)
{
    // Three operands, two at a time: first the choice of an offset, then the numbers.
    const Shape shape = broadcast(condition.shape, broadcast(yes.shape, no.shape));
    Cells result = make_cells(shape);
    result.truth = yes.truth && no.truth;
    const Shape strides = broadcast_strides(condition.shape, shape);
    for_each_index(shape, strides, broadcast_strides(yes.shape, shape),
                   [&](std::size_t at, std::size_t c, std::size_t y) {
                       if (condition.cells[c].value != 0)
                           result.cells[at] = yes.cells[y];
                   });
    for_each_index(shape, strides, broadcast_strides(no.shape, shape),
                   [&](std::size_t at, std::size_t c, std::size_t n) {
                       if (condition.cells[c].value == 0)
                           result.cells[at] = no.cells[n];
                   });
    return result;
}

Cells concatenated(const std::vector<Cells>& parts, std::size_t axis)
{
    Shape shape = parts.front().shape;
    shape[axis] = 0;
    for (const Cells& part : parts) {
        Shape like = part.shape;
        if (like.size() == shape.size())
            like[axis] = shape[axis];
        if (like != shape)
            throw Error("concat: the shapes " + to_string(parts.front().shape) + " and " + to_string(part.shape) +
                        " differ elsewhere than along axis " + std::to_string(axis));
        shape[axis] += part.shape[axis];
    }
    Cells result = make_cells(shape);
    const AxisLoops whole(shape, axis);
    std::size_t start = 0;
    for (const Cells& part : parts) {
        const AxisLoops loops(part.shape, axis);
        for (std::size_t before = 0; before < loops.outer; ++before)
            std::copy_n(part.cells.begin() + static_cast<std::ptrdiff_t>(loops.at(before, 0, 0)),
                        loops.length * loops.inner,
                        result.cells.begin() + static_cast<std::ptrdiff_t>(whole.at(before, start, 0)));
        start += loops.length;
    }
    return result;
}

Cells repeated(const Cells& x, std::size_t count, std::size_t axis)
{
    Shape shape = x.shape;
    if (__builtin_mul_overflow(shape[axis], count, &shape[axis]))
        throw Error("repeat: too many times");
    Cells result = make_cells(shape);
    const AxisLoops from(x.shape, axis), to(shape, axis);
    for (std::size_t before = 0; before < to.outer; ++before)
        for (std::size_t along = 0; along < to.length; ++along)
            for (std::size_t after = 0; after < to.inner; ++after)
                result.cells[to.at(before, along, after)] = x.cells[from.at(before, along / count, after)];
    return result;
}

Cells interleaved(const Cells& first, const Cells& second)
{
    if (first.shape != second.shape || first.rank() == 0)
        throw Error("interleave: the shapes " + to_string(first.shape) + " and " + to_string(second.shape) + " differ");
    Shape shape = first.shape;
    shape.back() *= 2;
    Cells result = make_cells(shape);
    for (std::size_t i = 0; i < first.cells.size(); ++i) {
        result.cells[2 * i] = first.cells[i];
        result.cells[2 * i + 1] = second.cells[i];
    }
    return result;
}

Cells diagonal(const Cells& vector)
{
    if (vector.rank() != 1)
        throw Error("diag wants a vector, not a tensor " + to_string(vector.shape));
    const std::size_t n = vector.shape[0];
    Cells result = make_cells({n, n});
    for (std::size_t i = 0; i < n; ++i)
        result.cells[i * n + i] = vector.cells[i];
    return result;
}

Cells counted(std::size_t count)
{
    Cells result = make_cells({count});
    for (std::size_t i = 0; i < count; ++i)
        result.cells[i].value = static_cast<double>(i);
    return result;
}

Cells reshaped(const Cells& x, Shape shape)
{
    if (element_count(shape) != x.cells.size())
        throw Error("reshape: " + to_string(x.shape) + " doesn't have as many numbers as " + to_string(shape));
    Cells result = x;
    result.shape = std::move(shape);
    return result;
}

} // namespace attn
