#pragma once

#include "matching.hpp"

#include <string>
#include <vector>

namespace attn::diff {

/// Takes MINE's arrays for steps by walking both programs from the inputs.
///
/// An array is explained where it is, in any layout, a step of the reference, or what follows for a step from MINE's own arrays.
/// One that is not, on the way to a result that is not explained either, is wrong: it is taken for the step that what MINE
/// computes from it then follows from.
Matches match_by_walking(const Recording& reference, const ArrayViews& mine, const std::vector<Claim>& known,
                         const std::vector<std::string>& names, const MyGraph& graph, const Hypothesis& hypothesis);

} // namespace attn::diff
