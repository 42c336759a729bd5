#pragma once

#include "attn/diff/diff.hpp"

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace attn {

/// The steps of a reference by path.
using StepNumbers = std::unordered_map<std::string_view, std::size_t>;

/// MINE's arrays by name, wherever they are.
using ArrayViews = std::map<std::string, const Array*, std::less<>>;

/// An array of MINE, or a part of one, that is said to be a step.
struct Claim {
    std::size_t step = 0; ///< its number in the reference
    std::string mine;     ///< "probs[..., 3, :, :]"
    const Array* array = nullptr;
    std::string complaint; ///< why no part could be taken; empty where one was
};

/// Which arrays of MINE are which steps.
struct Claims {
    std::vector<Claim> claims;                       ///< in the order of the steps
    std::vector<std::string> extra;                  ///< arrays that are no step
    std::vector<std::unique_ptr<const Array>> parts; ///< what was taken out of arrays
};

/// Reads the names of MINE: first the options' rules, then their table, then as paths.
/// @throws Error where a rule is malformed
Claims claims_of(const std::vector<Step>& reference, const ArrayViews& mine, const DiffOptions& options);

/// How many heads stand beside a step, or beside each other where it is one of theirs; 0 where there are none.
std::size_t heads_around(const std::string& path, const std::vector<Step>& reference);

} // namespace attn
