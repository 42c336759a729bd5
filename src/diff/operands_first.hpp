#pragma once

#include <cstddef>
#include <vector>

namespace attn {

/// Computes what a step follows from, operands before what uses them, but for what is known. Whatever is computed by asking
/// for its operands, each of which asks for its own, then never nests as deep as the trace is long.
/// @param operands  of a step: a list that stays where it is
/// @param is_known  true for a step that needs no computing
/// @param compute   makes a step known
template <class Operands, class IsKnown, class Compute>
void operands_first(std::size_t step, const Operands& operands, const IsKnown& is_known, const Compute& compute)
{
    struct Open {
        std::size_t step, next = 0; ///< the operand to look at
    };
    std::vector<Open> open{{step}};
    while (!open.empty()) {
        const std::size_t at = open.back().step;
        const std::vector<std::size_t>& list = operands(at);
        if (open.back().next < list.size()) {
            const std::size_t operand = list[open.back().next++];
            if (!is_known(operand))
                open.push_back({operand});
            continue;
        }
        open.pop_back();
        if (!open.empty())
            compute(at);
    }
}

} // namespace attn
