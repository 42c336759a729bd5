#pragma once

#include "attn/recording.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace attn {

/// Names that are nearly another one: "; did you mean scores or head.0.scores?"; empty where there are none.
std::string suggestion(const std::vector<std::string_view>& names, std::string_view name);

/// The number of the step that a path means; the other name of a step means that step.
/// @throws Error  where there is no such step, with those of similar names
std::size_t find_step(const Recording& recording, std::string_view path);

} // namespace attn
