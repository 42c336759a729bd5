#pragma once

#include "run.hpp"

#include "attn/show/page/view.hpp"

#include <deque>

namespace attn::show {

/// What the page knows before it asks for numbers: titles, tokens, the steps of one or two runs in one list, how far
/// those of two are apart, and aliases.
/// @throws Error  where there are more than two runs, tokens fit no axis, or two runs have no step in common
Json model_of(std::deque<ShownRun>& runs, const TokenLabels& labels);

} // namespace attn::show
