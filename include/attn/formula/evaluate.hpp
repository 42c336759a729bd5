#pragma once

#include "attn/core/array.hpp"
#include "attn/core/budget.hpp"
#include "attn/formula/expression.hpp"

#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

namespace attn::formula {

/// The value of a formula, and for each number how much another correct computation of it can differ.
struct Evaluated {
    Array value;
    std::vector<double> error; ///< absolute, one per value
};

/// Finds the array that a name in a formula means; nullptr where there is none.
using Lookup = std::function<const Array*(std::string_view name)>;

/// The largest relative error of one double operation.
inline constexpr double double_roundoff = 0x1p-53;

/// How the error of a sum is estimated.
enum class SumErrors {
    largest, ///< a bound: n terms add n roundings of the sum of their sizes (Higham 2002, chapter 4)
    typical, ///< what is to be expected: the roundings of the partial sums are independent
    none,    ///< not at all, where only the numbers are asked for: several times as fast
};

/// How the program rounded whose numbers are compared with those of a formula.
struct ErrorModel {
    double roundoff = double_roundoff;        ///< the unit roundoff of its operations
    double stored_roundoff = double_roundoff; ///< of results that it stores between two operations
    SumErrors sums = SumErrors::largest;
    bool stores_each = false; ///< each result inside a formula is stored, too; what a sum adds is not
    double smallest = 0;      ///< the smallest positive number of its operations: their results are no finer than that
};

/// Computes a formula by plain loops: no xtensor, no BLAS, so that it can check what was computed with them. The type of
/// the value is integer or boolean where the formula can give nothing else, see docs/formulas.md.
/// @param formula    its text, for messages
/// @param lookup     what its names mean
/// @param errors     of the program that computed the numbers to compare with
/// @throws FormulaError where it can't be parsed, a name means nothing, or shapes don't fit
/// @throws BudgetError where the budget doesn't suffice: the one that is being spent, or the usual one
Evaluated evaluate(std::string_view formula, const Lookup& lookup, const ErrorModel& errors = {});

/// What a formula computes on the way to its value, the inner ones first: x - mean in (x - mean) ** 2. Names and numbers alone are
/// none.
/// @throws FormulaError, BudgetError  as evaluate()
std::vector<Array> inner_values(std::string_view formula, const Lookup& lookup);

/// Plus or minus one, the same for the same number in each run: in which direction another computation rounds it.
double rounding_sign(std::size_t draw, std::size_t step, std::size_t place);

} // namespace attn::formula
