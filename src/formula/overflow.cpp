#include "attn/formula/overflow.hpp"

#include "attn/formula/expression.hpp"
#include "attn/formula/scope.hpp"

#include <algorithm>
#include <cmath>

namespace attn::formula {
namespace {

/// The place of the first number that is not finite; the size where all are.
std::size_t first_not_finite(const Array& array)
{
    const auto found = std::ranges::find_if(array.values, [](double value) { return !std::isfinite(value); });
    return static_cast<std::size_t>(found - array.values.begin());
}

bool is_finite(const Array& array) { return first_not_finite(array) == array.size(); }

bool says_infinity(const Expression& expression)
{
    return (expression.kind == Expression::Kind::number && std::isinf(expression.number)) ||
           std::ranges::any_of(parts_of(expression), [](const Expression* part) { return says_infinity(*part); });
}

/// True where all that a step's formula names is finite; false where that can't be known.
bool follows_from_finite(const Recording& recording, const StepNames& names, std::size_t number)
{
    const std::string& formula = recording.steps[number].formula;
    try {
        return !says_infinity(parse_formula(formula)) &&
               std::ranges::all_of(names_in(formula), [&](const UsedName& used) {
                   const std::optional<std::size_t> operand = names.resolve(number, used.name);
                   return operand && is_finite(recording.steps[*operand].value);
               });
    } catch (const FormulaError&) {
        return false;
    }
}

} // namespace

std::optional<Overflow> find_overflow(const Recording& recording, const std::vector<std::string>& meant)
{
    const auto is_meant = [&](const Step& step) {
        return std::ranges::any_of(meant, [&](const std::string& scope) { return step.path.starts_with(scope + "."); });
    };
    const StepNames names(recording);
    for (std::size_t i = 0; i < recording.steps.size(); ++i) {
        const Step& step = recording.steps[i];
        const std::size_t offset = first_not_finite(step.value);
        if (offset < step.value.size() && !step.formula.empty() && !is_meant(step) &&
            follows_from_finite(recording, names, i))
            return Overflow{&step, offset};
    }
    return std::nullopt;
}

std::string to_text(const Overflow& overflow)
{
    const Array& value = overflow.step->value;
    const double number = value.values[overflow.offset];
    return overflow.step->path + bracketed(index_at(overflow.offset, value.shape)) + " is " +
           (std::isnan(number) ? "NaN" : exact_text(number)) +
           ", though all numbers that it follows from are finite: they are too large for a double, or divided by 0, "
           "and "
           "what follows from it means nothing";
}

} // namespace attn::formula
