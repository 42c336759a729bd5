#pragma once

#include "attn/core/recording.hpp"
#include "attn/formula/evaluate.hpp"
#include "attn/formula/scope.hpp"

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace attn::formula {

/// What is other than in the trace, by the number of the step.
struct Changes {
    std::map<std::size_t, Array> values = {}; ///< of steps, such as an input
    std::map<std::size_t, std::string> formulas =
        {}; ///< by which steps are computed instead; `given` is the trace's own value
};

/// What a trace would have been with other numbers, or by other formulas. Refers to the trace, which outlives it.
class Recomputation {
public:
    /// Steps by their numbers.
    using Arrays = std::map<std::size_t, Array>;

    explicit Recomputation(const Recording& recording);

    const StepNames& names() const { return names_; }

    /// The steps that follow from the changes, themselves among them. A changed formula can use a later step.
    /// @param last  what follows after this step is left out
    /// @throws FormulaError where a step can't be computed: a shape does not fit, or it follows from itself
    Arrays with(const Changes& changes, std::size_t last) const;
    Arrays with(const Changes& changes) const { return with(changes, recording_.steps.size() - 1); }

private:
    class Run;

    const Recording& recording_;
    StepNames names_;
    std::vector<std::vector<std::size_t>> operands_;
};

} // namespace attn::formula
