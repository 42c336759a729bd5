#pragma once

#include "names.hpp"
#include "operands_first.hpp"
#include "targets.hpp"

#include "attn/budget.hpp"
#include "attn/formula/evaluate.hpp"
#include "attn/formula/scope.hpp"

#include <map>
#include <set>
#include <utility>
#include <vector>

namespace attn {

/// What MINE has for the steps of a reference, as far as its arrays are known.
class KnownSteps {
public:
    explicit KnownSteps(const Recording& reference) : steps_(reference.steps), names_(reference) {}

    void set(std::size_t step, const Array& array)
    {
        own_.insert_or_assign(step, array);
        forget();
    }

    void unset(std::size_t step)
    {
        own_.erase(step);
        forget();
    }

    bool has(std::size_t step) const { return own_.contains(step); }

    /// The steps before one that MINE has as the reference has it: none of them is wrong.
    std::set<std::size_t> innocent()
    {
        std::set<std::size_t> known;
        std::vector<std::size_t> open = right();
        while (!open.empty()) {
            const std::size_t step = open.back();
            open.pop_back();
            for (const std::size_t operand : operands(step))
                if (known.insert(operand).second)
                    open.push_back(operand);
        }
        return known;
    }

    /// These, and those that MINE has as the reference has them.
    std::set<std::size_t> right_or_innocent()
    {
        std::set<std::size_t> known = innocent();
        for (const std::size_t step : right())
            known.insert(step);
        return known;
    }

    /// True where a step follows from an array of MINE that is not the reference's.
    bool differs(std::size_t step)
    {
        const auto own = own_.find(step);
        if (own != own_.end())
            return relative_distance(own->second, steps_[step].value) > hardly_different;
        const auto known = differs_.find(step);
        if (known != differs_.end())
            return known->second;
        operands_first(
            step, [this](std::size_t at) -> const std::vector<std::size_t>& { return operands(at); },
            [this](std::size_t operand) { return own_.contains(operand) || differs_.contains(operand); },
            [this](std::size_t operand) { differs(operand); });
        bool is_other = false;
        for (const std::size_t operand : operands(step))
            is_other = is_other || differs(operand);
        return differs_[step] = is_other;
    }

    /// MINE's array of a step, or what follows for it; the reference's where that can't be computed.
    const Array& value(std::size_t step)
    {
        const auto own = own_.find(step);
        if (own != own_.end())
            return own->second;
        return differs(step) ? following(step) : steps_[step].value;
    }

    /// What a step's formula gives from what MINE has.
    const Array& following(std::size_t step)
    {
        const auto known = computed_.find(step);
        if (known != computed_.end())
            return known->second;
        operands_first(
            step, [this](std::size_t at) -> const std::vector<std::size_t>& { return operands(at); },
            [this](std::size_t operand) {
                return own_.contains(operand) || computed_.contains(operand) || !differs(operand);
            },
            [this](std::size_t operand) { following(operand); });
        Array result = steps_[step].value;
        try {
            const Lookup lookup = [&](std::string_view name) {
                const auto operand = names_.resolve(step, name);
                return operand ? &value(*operand) : nullptr;
            };
            Array computed = evaluate(steps_[step].formula, lookup).value;
            if (computed.shape == result.shape)
                result = std::move(computed);
        } catch (const FormulaError&) {
        }
        return computed_.emplace(step, std::move(result)).first->second;
    }

private:
    // A step that follows from one that differs by less than this is taken to be the reference's.
    static constexpr double hardly_different = 1e-4;

    /// What MINE has as the reference has it.
    std::vector<std::size_t> right() const
    {
        std::vector<std::size_t> steps;
        for (const auto& [step, own] : own_)
            if (relative_distance(own, steps_[step].value) <= right_enough(own))
                steps.push_back(step);
        return steps;
    }

    void forget()
    {
        computed_.clear();
        differs_.clear();
    }

    const std::vector<std::size_t>& operands(std::size_t step)
    {
        constexpr double operations = 100;
        spend(operations);
        const auto known = operands_.find(step);
        return known != operands_.end() ? known->second
                                        : operands_.emplace(step, operands_of(step, steps_, names_)).first->second;
    }

    const std::vector<Step>& steps_;
    StepNames names_;
    std::map<std::size_t, Array> own_, computed_;
    std::map<std::size_t, bool> differs_;
    std::map<std::size_t, std::vector<std::size_t>> operands_;
};

} // namespace attn
