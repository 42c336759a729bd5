#pragma once

#include "world.hpp"

namespace attn {

/// True where a step's rows are shifted, or have another number where minus infinity is expected, and the weights that follow
/// are the same: every step that uses it, and all that follow from these, lead to a softmax that gives the same.
/// @param found     what MINE has, in the step's shape
/// @param expected  what the step's formula gives
bool is_without_effect(Diff::World& world, std::size_t step, const Array& found, const Array& expected);

} // namespace attn
