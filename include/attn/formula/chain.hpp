#pragma once

#include "attn/core/recording.hpp"

#include <cstddef>
#include <vector>

namespace attn::formula {

/// The length of the longest chain of matrix products of a trace, in which each needs the result of the one before.
///
/// Products that do not need one another can be computed at the same time. Those of one chain must be computed one
/// after the other on any machine. The chain follows from the formulas: a name in a formula is a step that has to be
/// computed first, unless only its size is used, as in `keys.shape[0]`.
/// @throws FormulaError where a formula can't be parsed, or a name means no earlier step
std::size_t products_in_line(const Recording& recording);

} // namespace attn::formula
