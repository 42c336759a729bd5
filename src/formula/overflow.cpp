#include "attn/formula/overflow.hpp"

#include "attn/formula/expression.hpp"
#include "attn/formula/scope.hpp"

#include <algorithm>
#include <cmath>

namespace attn::formula {
namespace {

bool says_infinity(const Expression& expression)
{
    return (expression.kind == Expression::Kind::number && std::isinf(expression.number)) ||
           std::ranges::any_of(parts_of(expression), [](const Expression* part) { return says_infinity(*part); });
}

} // namespace

std::optional<Array> OverflowWatch::on_step(const Step& step)
{
    const std::vector<double>& values = step.value.values;
    const auto found = std::ranges::find_if(values, [](double value) { return !std::isfinite(value); });
    infinite_.emplace_back();
    if (found != values.end())
        infinite_.back() = {*found, index_at(static_cast<std::size_t>(found - values.begin()), step.value.shape)};
    outline_.steps.push_back({step.path, step.formula, {}, {}, {}, {}});
    return std::nullopt;
}

/// True where all that a step's formula names is finite; false where that can't be known.
bool OverflowWatch::follows_from_finite(const StepNames& names, std::size_t number) const
{
    const std::string& formula = outline_.steps[number].formula;
    try {
        return !says_infinity(parse_formula(formula)) &&
               std::ranges::all_of(names_in(formula), [&](const UsedName& used) {
                   const std::optional<std::size_t> operand = names.resolve(number, used.name);
                   return operand && !infinite_[*operand];
               });
    } catch (const FormulaError&) {
        return false;
    }
}

std::optional<Overflow> OverflowWatch::found(const std::vector<std::string>& meant) const
{
    const auto is_meant = [&](const Step& step) {
        return std::ranges::any_of(meant, [&](const std::string& scope) { return step.path.starts_with(scope + "."); });
    };
    const StepNames names(outline_);
    for (std::size_t i = 0; i < outline_.steps.size(); ++i) {
        const Step& step = outline_.steps[i];
        if (infinite_[i] && !step.formula.empty() && !is_meant(step) && follows_from_finite(names, i))
            return Overflow{step.path, infinite_[i]->index, infinite_[i]->number};
    }
    return std::nullopt;
}

std::optional<Overflow> find_overflow(const Recording& recording, const std::vector<std::string>& meant)
{
    OverflowWatch watch;
    Listener& listener = watch;
    for (const Step& step : recording.steps)
        (void)listener.record(step);
    for (const Alias& alias : recording.aliases)
        listener.record(alias);
    return watch.found(meant);
}

std::string to_text(const Overflow& overflow)
{
    return overflow.path + bracketed(overflow.index) + " is " +
           (std::isnan(overflow.number) ? "NaN" : exact_text(overflow.number)) +
           ", though all numbers that it follows from are finite: they are too large for a double, or divided by 0, "
           "and "
           "what follows from it means nothing";
}

} // namespace attn::formula
