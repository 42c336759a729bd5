#pragma once

#include "attn/core/recording.hpp"
#include "attn/formula/evaluate.hpp"

#include <string>
#include <vector>

namespace attn::formula {

/// The result for one step.
struct StepCheck {
    enum class Verdict {
        input,       ///< has no formula: there is nothing to recompute
        agrees,      ///< recomputed, and the same apart from rounding
        differs,     ///< recomputed, and another number somewhere
        wrong_shape, ///< recomputed, and another shape
        unusable     ///< its formula can't be read or computed
    };

    std::string path;
    Verdict verdict = Verdict::input;
    std::string message; ///< one line for people; empty for an input and where all agrees
    Shape worst_index;   ///< of a step that differs: where it is furthest out of tolerance

    bool passed() const { return verdict == Verdict::input || verdict == Verdict::agrees; }
};

/// The results for all steps of a trace, in order.
struct Verification {
    std::vector<StepCheck> checks;

    std::size_t inputs() const;     ///< steps without a formula
    std::size_t recomputed() const; ///< steps whose formula could be computed
    std::size_t failures() const;   ///< steps that did not pass
    bool passed() const { return failures() == 0; }
};

/// Recomputes every step from its formula and the steps before it.
///
/// A name in a formula means a step that was recorded earlier, in the innermost scope that has one: in the step
/// `encoder.head.0.scores`, `keys` is `encoder.head.0.keys`, else `encoder.head.keys`, `encoder.keys`, or `keys`.
///
/// A recorded number can be off by four times the error bound that is computed along with it, since both computations
/// round: each number has a tolerance of its own. Below the smallest normal number of a type, its numbers are a fixed
/// distance apart, and each operation can be off by that. An infinity agrees only with the same
/// infinity, and NaN only with NaN.
/// @param roundoff  the unit roundoff of the program that computed the steps; a module whose option `type` is another type of
///                  numbers, such as float32, computed in that
/// @throws BudgetError where the budget doesn't suffice for all steps together: the one that is being spent, or the usual one
Verification verify(const Recording& recording, double roundoff = double_roundoff);

} // namespace attn::formula
