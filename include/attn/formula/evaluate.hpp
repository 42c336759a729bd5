#pragma once

#include "attn/array.hpp"
#include "attn/formula/expression.hpp"

#include <functional>
#include <string_view>

namespace attn {

/// What a formula gives, and for each number how far another correct computation of it can be away.
struct Evaluated {
    Array value;
    std::vector<double> error; ///< absolute, one per value
};

/// Finds the array that a name in a formula means; nullptr where there is none.
using Lookup = std::function<const Array*(std::string_view name)>;

/// The largest relative error of one double operation.
inline constexpr double double_roundoff = 0x1p-53;

/// Computes a formula by plain loops: no xtensor, no BLAS, so that it can check what was computed with them. The type of
/// the value is integer or boolean where the formula can give nothing else, see docs/formulas.md.
/// @param formula   its text, for messages
/// @param lookup    what its names mean
/// @param roundoff  the unit roundoff of whoever computed what this is compared with
/// @throws FormulaError where it can't be parsed, a name means nothing, shapes don't fit, or it would take too much memory
Evaluated evaluate(std::string_view formula, const Lookup& lookup, double roundoff = double_roundoff);

} // namespace attn
