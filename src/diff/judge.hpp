#pragma once

#include "world.hpp"

#include <vector>

namespace attn::diff {

/// Judges the arrays of MINE, one after the other in the order of the steps. Claims that the budget does not suffice for are
/// dropped.
/// @param is_same  of each claimed array: bit by bit the reference's
/// @param is_trial  how far off right numbers can be is measured only where that can matter
void judge(Diff& diff, const DiffOptions& options, const std::vector<bool>& is_same, bool is_trial);

} // namespace attn::diff
