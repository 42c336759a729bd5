#pragma once

#include "attn/diff/diff.hpp"

#include <functional>
#include <map>
#include <string>

namespace attn {

/// The steps that a mistake changes, up to the wrong one, as they are after it; by path.
std::map<std::string, Array, std::less<>> steps_after(const Diagnosis& diagnosis, const Diff& diff);

} // namespace attn
