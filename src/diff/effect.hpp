#pragma once

#include "world.hpp"

namespace attn {

/// True where a step's numbers differ and the weights that follow do not: every step that uses it, and all that follow from
/// these, lead to a softmax that gives the same. So it is with -1e9 for minus infinity, or a row that is shifted.
/// @param found     what MINE has, in the step's shape
/// @param expected  what the step's formula gives
bool is_without_effect(Diff::World& world, std::size_t step, const Array& found, const Array& expected);

} // namespace attn
