#pragma once

#include "world.hpp"

#include <string>

namespace attn::diff {

/// True where MINE has the step that all others lead to; of gradients, those of inputs and weights that its arrays can be.
bool has_result(const Diff& diff);

/// The gradient of an input or a weight that MINE does not have and that has as many numbers as an array that is no step, or one
/// of three that have, packed; nullptr where there is none.
const Step* gradient_in_size_of(const Diff::World& world, const std::string& name);

/// What was compared, and what keeps it from telling that MINE is the same.
Ledger ledger_of(const Diff& diff, const DiffOptions& options);

} // namespace attn::diff
