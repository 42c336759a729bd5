#pragma once

#include "attn/mistakes/pitfalls.hpp"

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "world.hpp"

/// Where a mistake can be made.
namespace attn::diff {

/// Steps that are computed by other formulas.
using Edits = std::map<std::size_t, std::string>;

/// One form of a mistake, made in all of some steps that it concerns; empty where it can't be made.
Edits edits_of(const mistakes::PitfallForm& form, std::string_view value, const std::set<std::size_t>& open,
               const Diff::World& world);

/// The mistake, made in those steps.
/// @param off  by how much MINE differs from what it gives
Diagnosis diagnosis_of(const mistakes::Pitfall& pitfall, const Edits& edits, const Diff::World& world, double off = 0);

/// In which of the steps that a form of a mistake concerns it is made.
enum class Reach {
    all,  ///< in all of them, or in all of one edit: in one of its maps
    kind, ///< in those of one stack, or of one kind of block, such as cross-attention
    place ///< in those of one layer or one block, or in one
};

/// The edits of one form, as far as they reach.
std::vector<Edits> choices_of(const mistakes::PitfallForm& form, std::string_view value, Reach reach,
                              const std::set<std::size_t>& open, const Diff::World& world);

} // namespace attn::diff
