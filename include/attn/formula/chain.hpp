#pragma once

#include "attn/recording.hpp"

#include <cstddef>
#include <vector>

namespace attn {

/// How many matrix products of a trace have to wait for each other.
///
/// Products that do not need one another can be computed at the same time; of those that do, each has to wait for the one
/// before. The longest such chain is what no machine can shorten, however much it does at once. It is read from the
/// formulas: a name in a formula is a step that has to be there first; only its size, as in `keys.shape[0]`, is known
/// before.
/// @param recording  of a run
/// @return the number of products in the longest chain
/// @throws FormulaError where a formula can't be parsed, or a name means no earlier step
std::size_t products_in_line(const Recording& recording);

} // namespace attn
