#pragma once

#include "attn/diff/diff.hpp"
#include "attn/formula/scope.hpp"

#include "my_graph.hpp"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace attn::diff {

/// An array of MINE, or a part of one, that is said to be a step.
struct Claim {
    std::size_t step = 0; ///< its number among Claims::steps
    std::string mine;     ///< "probs[..., 3, :, :]"
    const Array* array = nullptr;
    std::string complaint;  ///< why no part could be taken; empty where one was
    std::string path = {};  ///< that the step was found by: its own, or an alias's
    bool replaces = false;  ///< what MINE had for the step before was changed into it
    std::string found = {}; ///< the array's name, where its numbers and no name say that it is this step; else empty
};

struct Hypothesis;

/// What is known of MINE's arrays besides the steps that they are.
struct Explanation {
    std::string fault =
        {}; ///< an array that is wrong by what the reference says of masks, inputs and sources; mostly empty
    std::set<std::string, std::less<>> explained =
        {};                                        ///< those that are right, or that something right was computed from
    std::set<std::string, std::less<>> right = {}; ///< those that have the reference's numbers
    bool is_cut = false;                           ///< the budget did not suffice for all arrays
};

/// Which arrays of MINE are which steps.
///
/// An array under an alias's path is the step that the alias means. Where MINE has another array for that step, and the
/// two differ, the alias becomes a step of its own with the other one for its formula: `norm1.x = residual1`.
struct Claims : Explanation {
    std::vector<Claim> claims;                       ///< in the order of the steps, one per array or part
    std::vector<std::string> extra;                  ///< arrays that are no step
    std::vector<Found> found;                        ///< arrays whose step their numbers say
    std::vector<std::shared_ptr<const Array>> parts; ///< what was taken out of arrays
    std::shared_ptr<const Recording> widened; ///< the reference with those aliases as steps, where there are some
};

/// Reads the names of MINE: first the options' rules, then their table, then as paths. What no name claims is looked for by
/// its numbers.
/// @param hypothesis  what else than the reference's numbers an array can have
/// @throws Error where a rule is malformed, or names a step that the reference does not have
Claims claims_of(const Recording& reference, const ArrayViews& mine, const MyGraph& graph, const DiffOptions& options,
                 const Hypothesis& hypothesis);

/// How many heads stand beside a step, or beside each other where it is one of theirs; 0 where there are none.
std::size_t heads_around(std::string_view path, const std::vector<Step>& reference);

} // namespace attn::diff
