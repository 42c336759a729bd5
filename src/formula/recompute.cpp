#include "attn/formula/recompute.hpp"

#include "attn/formula/expression.hpp"

#include <algorithm>
#include <set>

namespace attn::formula {

Recomputation::Recomputation(const Recording& recording)
    : recording_(recording), names_(recording), operands_(recording.steps.size())
{
    for (std::size_t step = 0; step < recording.steps.size(); ++step)
        if (!recording.steps[step].formula.empty())
            for (const UsedName& used : names_in(recording.steps[step].formula))
                if (const auto operand = names_.resolve(step, used.name))
                    operands_[step].push_back(*operand);
}

/// One set of changes, and what has been computed with them.
class Recomputation::Run {
public:
    Run(const Recomputation& all, const Changes& changes, std::size_t last)
        : all_(all), changes_(changes), is_changed_(last + 1), computed_(changes.values)
    {
        for (std::size_t step = 0; step <= last; ++step)
            is_changed_[step] = changes.values.contains(step) || changes.formulas.contains(step) ||
                                std::ranges::any_of(all.operands_[step], [&](std::size_t i) { return is_changed_[i]; });
    }

    Arrays arrays()
    {
        for (std::size_t step = 0; step < is_changed_.size(); ++step)
            value(step);
        return std::move(computed_);
    }

private:
    const Array& value(std::size_t step)
    {
        if (step >= is_changed_.size() || !is_changed_[step])
            return all_.recording_.steps[step].value;
        const auto known = computed_.find(step);
        return known != computed_.end() ? known->second : computed_.emplace(step, compute(step)).first->second;
    }

    Array compute(std::size_t number)
    {
        const Step& step = all_.recording_.steps[number];
        const auto changed = changes_.formulas.find(number);
        const std::string& formula = changed == changes_.formulas.end() ? step.formula : changed->second;
        if (!under_way_.insert(number).second)
            throw FormulaError(formula, 0, "the step is computed from itself");
        const Lookup lookup = [&](std::string_view name) -> const Array* {
            if (name == "given")
                return &step.value;
            const auto operand = all_.names_.resolve_any(number, name);
            return operand ? &value(*operand) : nullptr;
        };
        Array result = evaluate(formula, lookup).value;
        under_way_.erase(number);
        result.type = step.value.type;
        return result;
    }

    const Recomputation& all_;
    const Changes& changes_;
    std::vector<bool> is_changed_;
    Arrays computed_;
    std::set<std::size_t> under_way_;
};

Recomputation::Arrays Recomputation::with(const Changes& changes, std::size_t last) const
{
    return Run(*this, changes, last).arrays();
}

} // namespace attn::formula
