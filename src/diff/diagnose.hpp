#pragma once

#include "attn/diff/diff.hpp"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace attn::diff {

/// What explains the first wrong step, or the last array that differs. It is asked for several times, and computed once.
const std::vector<Diagnosis>& diagnoses_of_first(const Diff& diff);

/// The steps that a mistake changes, up to the wrong one, as they are after it; by path.
std::map<std::string, Array, std::less<>> steps_after(const Diagnosis& diagnosis, const Diff& diff);

} // namespace attn::diff
