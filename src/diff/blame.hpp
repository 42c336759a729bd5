#pragma once

#include "attn/diff/diff.hpp"

namespace attn::diff {

/// Gives the steps the origins that MINE's listing has, and says where the fault is: in the line of the first wrong array, where all
/// that it was computed from is explained; else between the last right array and it.
void blame(Diff& diff);

} // namespace attn::diff
