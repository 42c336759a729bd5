// What MINE has for the steps of a reference, as far as its arrays are known.

#include "known_steps.hpp"

#include "attn/core/budget.hpp"
#include "attn/formula/evaluate.hpp"
#include "attn/formula/expression.hpp"

#include <algorithm>
#include <utility>

namespace attn::diff {
namespace {

/// The earlier steps that a step's formula names, in order; none for an input, or a formula that can't be read.
std::vector<std::size_t> operands_of(std::size_t step, const std::vector<Step>& steps, const formula::StepNames& names)
{
    if (steps[step].formula.empty())
        return {};
    std::set<std::size_t> found;
    try {
        for (const formula::UsedName& used : formula::names_in(steps[step].formula))
            if (const std::optional<std::size_t> operand = names.resolve(step, used.name))
                found.insert(*operand);
    } catch (const formula::FormulaError&) {
        return {};
    }
    return {found.begin(), found.end()};
}

} // namespace

std::optional<std::size_t> input_of_gradient(std::string_view path, const std::vector<Step>& steps,
                                             const formula::StepNames& names)
{
    const auto of = path.starts_with(formula::gradient_scope) ? names.find(path.substr(formula::gradient_scope.size()))
                                                              : std::nullopt;
    return of && steps[*of].formula.empty() ? of : std::nullopt;
}

void KnownSteps::set(std::size_t step, const Array* own, bool differs)
{
    Known& one = known_[step];
    one.own = own;
    one.is_set = true;
    one.differs = differs;
    forget_from(step);
}

void KnownSteps::unset(std::size_t step)
{
    known_[step].own = nullptr;
    known_[step].is_set = false;
    forget_from(step);
}

void KnownSteps::confirm(std::size_t step, const Array& own)
{
    Known& one = known_[step];
    one.own = &own;
    one.is_set = true;
    one.differs = true;
}

void KnownSteps::set_formula(std::size_t step, std::string formula)
{
    known_[step].formula = std::move(formula);
    forget_from(step);
}

/// A formula names earlier steps only.
void KnownSteps::forget_from(std::size_t step)
{
    computed_.erase(computed_.lower_bound(step), computed_.end());
    differs_.erase(differs_.lower_bound(step), differs_.end());
}

const std::string& KnownSteps::formula(std::size_t step) const
{
    return known_[step].formula ? *known_[step].formula : steps_[step].formula;
}

const std::vector<std::size_t>& KnownSteps::operands(std::size_t step)
{
    constexpr double operations = 4;
    spend(operations);
    std::optional<std::vector<std::size_t>>& found = known_[step].operands;
    if (!found)
        found = operands_of(step, steps_, names_);
    return *found;
}

bool KnownSteps::differs(std::size_t step)
{
    if (known_[step].is_set)
        return known_[step].differs;
    const auto found = differs_.find(step);
    if (found != differs_.end())
        return found->second;
    before(
        step, [this](std::size_t i) { return known_[i].is_set || differs_.contains(i); },
        [this](std::size_t operand) { differs(operand); });
    return differs_[step] = known_[step].formula || std::ranges::any_of(operands(step), [this](std::size_t operand) {
                                return differs(operand);
                            });
}

const Array& KnownSteps::value(std::size_t step)
{
    if (own(step) != nullptr)
        return *own(step);
    if (steps_[step].formula.empty() || !differs(step))
        return steps_[step].value;
    const auto found = computed_.find(step);
    if (found != computed_.end())
        return found->second;
    before(
        step, [this](std::size_t i) { return own(i) != nullptr || computed_.contains(i) || !differs(i); },
        [this](std::size_t operand) { value(operand); });
    return computed_.emplace(step, computed(step)).first->second;
}

Array KnownSteps::computed(std::size_t step)
{
    const Array& right = steps_[step].value;
    const formula::Lookup lookup = [&](std::string_view name) {
        const auto operand = names_.resolve(step, name);
        return operand ? &value(*operand) : nullptr;
    };
    try {
        Array result = formula::evaluate(formula(step), lookup, {.sums = formula::SumErrors::none}).value;
        if (right.type == ElementType::integer)
            result.type = ElementType::integer;
        return result.shape == right.shape ? result : right;
    } catch (const formula::FormulaError&) {
        return right;
    }
}

} // namespace attn::diff
