#pragma once

#include "attn/core/array.hpp"
#include "attn/core/budget.hpp"

#include "rounded.hpp"

#include <array>
#include <functional>
#include <optional>
#include <vector>

namespace attn::formula {

/// All numbers of a tensor while a formula is being computed.
struct Cells {
    Shape shape;
    std::vector<Rounded> cells; ///< row-major
    TakenMemory memory = {};    ///< of the budget
};

/// Zeros of a shape.
/// @throws BudgetError where that is more than is left of the budget
Cells make_cells(const Shape& shape);

/// The numbers of a step, which have no error.
/// @throws BudgetError as make_cells
Cells exact_cells(const Array& array);

/// How far apart neighbours along each axis are in row-major order.
Shape strides_of(const Shape& shape);

std::size_t offset_of(const Shape& index, const Shape& shape);

/// The shape that two shapes broadcast to, by NumPy's rule.
/// @throws Error where they don't
Shape broadcast(const Shape& left, const Shape& right);

/// Which cell of a tensor belongs to each index of a loop: the first one's offset plus the strides times the index. Strides
/// can be negative, as unsigned numbers that wrap.
struct CellView {
    std::size_t first = 0;
    Shape strides;
};

/// All cells of a tensor, seen as one of the shape that it is broadcast to: stride 0 along the axes where it is repeated.
CellView broadcast_view(const Shape& shape, const Shape& to);

/// The loop of an operation: which cells it makes from which, index by index. It serves all cells, and a single one.
struct Loop {
    Shape shape;
    CellView to;                   ///< in the result, from coarse strides to fine ones
    std::vector<CellView> from;    ///< in the operands
    std::size_t first_operand = 0; ///< from[0] is in this one, from[1] in the next
};

/// The offset of the operand's cell from which a loop makes the result's cell at that offset; nothing where it doesn't make
/// that cell.
std::optional<std::size_t> source(const Loop& loop, std::size_t operand, std::size_t offset);

/// Calls visit({result offset, offset in from[0], in from[1], …}) for every index of a loop.
template <std::size_t operands, class Visit>
void for_each(const Loop& loop, const Visit& visit)
{
    constexpr std::size_t views = operands + 1;
    const auto view = [&](std::size_t i) -> const CellView& { return i == 0 ? loop.to : loop.from[i - 1]; };
    std::array<std::size_t, views> at{}, step{};
    const std::size_t rank = loop.shape.size(), count = element_count(loop.shape);
    const std::size_t length = rank == 0 ? 1 : loop.shape.back();
    for (std::size_t i = 0; i < views; ++i) {
        at[i] = view(i).first;
        step[i] = rank == 0 ? 0 : view(i).strides.back();
    }
    Shape index(rank);
    for (std::size_t done = 0; done < count; done += length) {
        std::array<std::size_t, views> inner = at;
        for (std::size_t along = 0; along < length; ++along) {
            visit(inner);
            for (std::size_t i = 0; i < views; ++i)
                inner[i] += step[i];
        }
        for (std::size_t axis = rank - (rank > 0); axis-- > 0;) {
            for (std::size_t i = 0; i < views; ++i)
                at[i] += view(i).strides[axis];
            if (++index[axis] < loop.shape[axis])
                break;
            for (std::size_t i = 0; i < views; ++i)
                at[i] -= view(i).strides[axis] * loop.shape[axis];
            index[axis] = 0;
        }
    }
}

/// Calls work(begin, end) for parts of 0 to count, at once where that is much work and there are processors for it.
/// @param operations  about how many there are in all
/// @param work        throws nothing, and spends no budget
void in_parts(std::size_t count, double operations,
              const std::function<void(std::size_t begin, std::size_t end)>& work);

/// As for_each, which can visit several indices at once.
/// @param operations_each  about how many a visit makes
template <std::size_t operands, class Visit>
void for_each_in_parts(const Loop& loop, std::size_t operations_each, const Visit& visit)
{
    if (loop.shape.empty())
        return for_each<operands>(loop, visit);
    const double operations = static_cast<double>(element_count(loop.shape) * operations_each);
    in_parts(loop.shape.front(), operations, [&](std::size_t begin, std::size_t end) {
        Loop part = loop;
        part.shape.front() = end - begin;
        part.to.first += begin * part.to.strides.front();
        for (CellView& from : part.from)
            from.first += begin * from.strides.front();
        for_each<operands>(part, visit);
    });
}

} // namespace attn::formula
