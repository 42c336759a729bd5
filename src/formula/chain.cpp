#include "attn/formula/chain.hpp"

#include "attn/core/budget.hpp"
#include "attn/formula/expression.hpp"
#include "attn/formula/scope.hpp"

#include <algorithm>
#include <optional>
#include <vector>

namespace attn::formula {
namespace {

/// The longest chain that ends in a part of a formula.
/// @param length_of  a name: the longest that ends in the step that it means
template <class LengthOf>
std::size_t longest_in(const Expression& expression, const LengthOf& length_of)
{
    if (expression.kind == Expression::Kind::name)
        return length_of(expression);
    if (expression.kind == Expression::Kind::size)
        return 0;
    std::size_t length = 0;
    for (const Expression* part : parts_of(expression))
        length = std::max(length, longest_in(*part, length_of));
    const bool is_product = expression.kind == Expression::Kind::binary && expression.text == "@";
    return length + (is_product ? 1 : 0);
}

} // namespace

std::size_t products_in_line(const Recording& recording)
{
    const BudgetScope budget;
    const StepNames names(recording);
    std::vector<std::size_t> lengths; // of the steps so far
    for (const Step& step : recording.steps) {
        const auto length_of = [&](const Expression& name) {
            const std::optional<std::size_t> found = names.resolve(lengths.size(), name.text);
            if (!found)
                throw FormulaError(step.formula, name.position, "no earlier step is called " + name.text);
            return lengths[*found];
        };
        lengths.push_back(step.formula.empty() ? 0 : longest_in(parse_formula(step.formula), length_of));
    }
    return lengths.empty() ? 0 : std::ranges::max(lengths);
}

} // namespace attn::formula
