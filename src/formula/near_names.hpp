#pragma once

#include "attn/recording.hpp"
#include "attn/step_name.hpp"

#include <cstddef>
#include <string_view>

namespace attn {

/// The number of the step that a path means; the other name of a step means that step.
/// @throws Error  where there is no such step, with those of similar names
std::size_t find_step(const Recording& recording, std::string_view path);

} // namespace attn
