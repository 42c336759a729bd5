#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace attn::vectors {

/// What a case can be needed for, and how many cases it takes.
struct Need {
    std::string name; ///< "causal_top_left", "attention: causal_top_left", "attention_causal/2"
    std::size_t cases = 1;

    auto operator<=>(const Need&) const = default;
};

/// Takes cases until each need is met, as far as any case meets it, and no more: without any of those that are taken, a need
/// would not be met that is met with it.
/// @param serves  the needs that each case meets
/// @return the numbers of the cases that are taken, in order
/// @see Chvátal 1979, A greedy heuristic for the set-covering problem
std::vector<std::size_t> choose(const std::vector<std::vector<Need>>& serves);

} // namespace attn::vectors
