#pragma once

#include "attn/core/array.hpp"
#include "attn/formula/scope.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace attn::diff {

/// The input or weight that a path is the gradient of; nothing for any other path.
std::optional<std::size_t> input_of_gradient(std::string_view path, const std::vector<Step>& steps,
                                             const formula::StepNames& names);

/// What MINE has for the steps of a reference: its own arrays, what follows from those, or else the reference's.
class KnownSteps {
public:
    /// Both outlive this.
    KnownSteps(const Recording& reference, const formula::StepNames& names)
        : steps_(reference.steps), names_(names), known_(steps_.size())
    {
    }

    /// MINE's array of a step, in the reference's layout, which outlives this; nullptr where it is of no use.
    /// @param differs  it is not the reference's
    void set(std::size_t step, const Array* own, bool differs);
    void unset(std::size_t step);

    /// The same of an array that has the numbers of value(): what follows from these need not be computed again.
    void confirm(std::size_t step, const Array& own);

    /// By which MINE computes a step, where that is another one than the reference's.
    void set_formula(std::size_t step, std::string formula);

    const std::string& formula(std::size_t step) const;

    /// MINE's own array; nullptr where it has none that is of use.
    const Array* own(std::size_t step) const { return known_[step].own; }

    /// The earlier steps that a step's formula names.
    const std::vector<std::size_t>& operands(std::size_t step);

    /// Makes known what a step follows from, operands before what uses them, but for what is known. Whatever is
    /// computed by asking for its operands, each of which asks for its own, then never nests as deep as the trace is
    /// long.
    /// @param is_known  true for a step that needs no computing
    /// @param compute   makes a step known
    template <class IsKnown, class Compute>
    void before(std::size_t step, const IsKnown& is_known, const Compute& compute)
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

    /// All steps that some steps follow from, but for those that are left out and what only these follow from.
    template <class IsLeftOut>
    std::set<std::size_t> all_before(std::vector<std::size_t> open, const IsLeftOut& is_left_out)
    {
        std::set<std::size_t> found;
        while (!open.empty()) {
            const std::size_t step = open.back();
            open.pop_back();
            for (const std::size_t operand : operands(step))
                if (!is_left_out(operand) && found.insert(operand).second)
                    open.push_back(operand);
        }
        return found;
    }

    /// True where MINE has another array than the reference, or one that follows from such an array.
    bool differs(std::size_t step);

    /// MINE's array of a step, or what its formula gives from what MINE has; the reference's where neither is another
    /// one, or where that can't be computed.
    const Array& value(std::size_t step);

private:
    struct Known {
        const Array* own = nullptr;
        bool is_set = false, differs = false;
        std::optional<std::string> formula;
        std::optional<std::vector<std::size_t>> operands;
    };

    void forget_from(std::size_t step);
    Array computed(std::size_t step);

    const std::vector<Step>& steps_;
    const formula::StepNames& names_;
    std::vector<Known> known_;
    std::map<std::size_t, Array> computed_; ///< what follows from other arrays
    std::map<std::size_t, bool> differs_;   ///< whether it does, of steps that MINE doesn't have
};

} // namespace attn::diff
