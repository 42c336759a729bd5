#pragma once

#include "cells.hpp"

#include <optional>
#include <string_view>
#include <vector>

namespace attn {

/// What the operators and functions of a formula do, by plain loops. Shapes that don't fit are an Error.
/// @{

/// + - * / ** < <= > >= == &, number by number, broadcast.
Cells elementwise(std::string_view op, const Cells& left, const Cells& right, const Rounding& rounding);

/// left @ right, by NumPy's rules for vectors, matrices and stacks of matrices.
Cells matmul(const Cells& left, const Cells& right, const Rounding& rounding);

/// The last two axes swapped; a vector or a number as it is.
Cells transposed(const Cells& x);

/// The axes in another order.
Cells permuted(const Cells& x, const std::vector<std::size_t>& order);

/// One entry between brackets, worked out: where to begin, how many to take, how far apart; or a new axis.
struct Range {
    enum class Kind { index, slice, new_axis } kind;
    std::ptrdiff_t start = 0, count = 1, step = 1;
};
Cells indexed(const Cells& x, const std::vector<Range>& ranges);

/// Rows of a table by their numbers.
Cells gathered(const Cells& table, const Cells& ids);

/// A function of each number. @return nothing where there is no such function
std::optional<Cells> elementary(std::string_view function, const Cells& x, const Rounding& rounding);

/// sum, mean, max or min along an axis, or of everything.
Cells reduced(std::string_view function, const Cells& x, std::optional<std::size_t> axis, bool keep,
              const Rounding& rounding);

/// exp(x) over its sum along an axis; zeros where all of x is minus infinity.
Cells softmax(const Cells& x, std::size_t axis, const Rounding& rounding);

Cells where(const Cells& condition, const Cells& yes, const Cells& no);
Cells concatenated(const std::vector<Cells>& parts, std::size_t axis);
Cells repeated(const Cells& x, std::size_t count, std::size_t axis);
Cells interleaved(const Cells& first, const Cells& second);
Cells diagonal(const Cells& vector);
Cells outer(const Cells& left, const Cells& right, const Rounding& rounding);
Cells counted(std::size_t count);
Cells reshaped(const Cells& x, Shape shape);

/// @}

} // namespace attn
