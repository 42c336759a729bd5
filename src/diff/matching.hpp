#pragma once

#include "names.hpp"

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace attn::diff {

/// An array of MINE that no name claims, and the steps that it is.
struct Match {
    /// A step, and what the array has for it, in the step's layout.
    struct Part {
        std::size_t step;
        std::string suffix; ///< "[part 0]"; nothing where the array is one step
        Array array;
    };
    std::vector<Part> parts;
    Found found;
    bool replaces = false; ///< what MINE had for these steps before was changed into it
};

/// All of them.
struct Matches : Explanation {
    std::vector<Match> matches;
};

/// How an array was found that has the numbers of a step, or of what follows from MINE's for it.
inline constexpr std::string_view found_by_numbers = "by its numbers";

/// What else than the reference's numbers an array can have.
struct Hypothesis {
    /// What steps would be after a mistake that explains what is known to be wrong, by path.
    std::map<std::string, Array, std::less<>> mistaken = {};
    /// Whether an array whose numbers no step has is the step that it fits best.
    bool guesses = false;
    /// Arrays that are another step than the one whose numbers they have, by name: the path of that step, or of its
    /// first head.
    std::map<std::string, std::string, std::less<>> used_as = {};
    /// Arrays that are no step, whatever step's numbers they nearly have.
    std::set<std::string, std::less<>> no_step = {};
};

/// Finds the steps that arrays without a step's name are.
///
/// An array is a step where its numbers are the step's, in whatever layout: with the axis of heads or of a batch at any
/// place, merged or apart, transposed, or as queries, keys and values packed into one array in any order. The step's numbers
/// are the reference's, or those that follow from what MINE has for the steps before, or those of the hypothesis. The last
/// array is the result, if nothing that is right follows from it. An array that is none of these is wrong by itself. If that
/// is to be guessed, it is the step that fits in shape and place and whose followers then fit; if that leaves several, its
/// name decides.
///
/// @param known       claims by name, of steps of the reference
/// @param names       of the arrays that none of these is about, in the order in which MINE has them
/// @param graph       what MINE says of all its arrays
Matches match_by_numbers(const Recording& reference, const ArrayViews& mine, const std::vector<Claim>& known,
                         const std::vector<std::string>& names, const MyGraph& graph, const Hypothesis& hypothesis);

} // namespace attn::diff
