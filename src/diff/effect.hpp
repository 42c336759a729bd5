#pragma once

#include "world.hpp"

#include <optional>
#include <string>

namespace attn::diff {

/// Why a difference has no effect, as a sentence about the step; nothing where it has one, or can have one. It has none
///
/// - where rows are shifted, or have another number where minus infinity is expected, and every step that uses it, and all
///   that follow from these, lead to a softmax that gives the same;
/// - where they are scores, those of another stage or only in masked places, and all lead to steps that MINE has right: it is
///   another quantity than the step of that name, such as scores that are masked before they are scaled;
/// - where weights are NaN for a query that can attend to nothing: 0 / 0.
/// @param found     what MINE has, in the step's shape
/// @param expected  what the step's formula gives, and how far off right numbers can be
std::optional<std::string> why_without_effect(Diff::World& world, std::size_t step, const Array& found,
                                              const Diff::World::Recomputed& expected);

} // namespace attn::diff
