#pragma once

#include "attn/core/array.hpp"
#include "attn/formula/expression.hpp"

#include <cstddef>
#include <string_view>
#include <vector>

/// Formulas put together in C++ as they are written in the language: grad * (1 - power(y, 2)).
namespace attn::formula::terms {

Expression number(double value);
Expression whole(std::ptrdiff_t value);

Expression operator-(Expression x);
Expression operator+(Expression a, Expression b);
Expression operator-(Expression a, Expression b);
Expression operator*(Expression a, Expression b);
Expression operator/(Expression a, Expression b);
Expression floored(Expression a, Expression b); ///< a // b
Expression product(Expression a, Expression b); ///< a @ b
Expression power(Expression base, Expression exponent);
Expression compared(Expression a, std::string_view op, Expression b);
Expression transposed(Expression x); ///< x.T; of x.T it is x, of a @ b it is b.T @ a.T

Expression call(std::string_view function, std::vector<Expression> operands, std::vector<Keyword> keywords = {});

/// where(condition, yes, no)
Expression chosen(Expression condition, Expression yes, Expression no);

/// function(x, axis=axis), where the last axis of `rank` is written as -1.
Expression along(std::string_view function, Expression x, std::size_t axis, std::size_t rank, bool keeps_axis = false);

/// reshape(x, 2, 3)
Expression reshaped(Expression x, const Shape& shape);

/// x with a new axis of one entry: x[..., None], x[:, None]
/// @param axis  its place in the result, which has `rank` axes
Expression widened(Expression x, std::size_t axis, std::size_t rank);

/// x[:, start:stop:step] along one axis of `rank`; an end that is the axis' own is not written.
/// @param length  of the axis
Expression sliced(Expression x, std::size_t axis, std::size_t rank, std::size_t start, std::size_t stop,
                  std::size_t length, std::ptrdiff_t step = 1);

/// A sum over the axes along which a tensor of a shape was repeated to be as large as another one.
Expression summed_to(const Shape& shape, Expression x, const Shape& from);

} // namespace attn::formula::terms
