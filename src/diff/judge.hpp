#pragma once

#include "world.hpp"

#include <vector>

namespace attn::diff {

/// Judges the arrays of MINE, one after the other in the order of the steps.
/// @param is_same  of each claimed array: bit by bit the reference's
void judge(Diff& diff, const DiffOptions& options, const std::vector<bool>& is_same);

} // namespace attn::diff
