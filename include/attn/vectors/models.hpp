#pragma once

#include "attn/core/recording.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace attn::vectors {

/// What a traced result would have been with a mistake.
struct MistakenResult {
    std::string mistake;                         ///< its id
    std::map<std::string, std::string> formulas; ///< of the steps that are computed otherwise, by path
    Array value;
};

/// What each form of each well-known mistake makes of a result, such as a model's logits: made in all steps that it concerns, and
/// in those of one kind, such as the norms of queries in all layers. What changes no number is left out, and what can't be made
/// with these sizes.
///
/// @param result  the path of the step
/// @throws Error where there is no such step
std::vector<MistakenResult> mistaken_results(const Recording& trace, std::string_view result);

} // namespace attn::vectors
