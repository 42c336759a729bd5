#include "attn/formula/chain.hpp"

#include "attn/formula/expression.hpp"
#include "attn/formula/scope.hpp"

#include <algorithm>
#include <optional>
#include <vector>

namespace attn {
namespace {

/// The longest chain that ends in each step so far.
class Chains {
public:
    explicit Chains(const Recording& recording) : recording_(recording), names_(recording) {}

    std::size_t longest()
    {
        for (const Step& step : recording_.steps)
            lengths_.push_back(step.formula.empty() ? 0 : behind(parse_formula(step.formula), step));
        return lengths_.empty() ? 0 : std::ranges::max(lengths_);
    }

private:
    /// The longest chain that ends in this part of a step's formula.
    std::size_t behind(const Expression& expression, const Step& step) const
    {
        if (expression.kind == Expression::Kind::name)
            return behind_name(expression, step);
        if (expression.kind == Expression::Kind::size)
            return 0;
        std::size_t length = 0;
        for (const Expression* part : parts_of(expression))
            length = std::max(length, behind(*part, step));
        const bool is_product = expression.kind == Expression::Kind::binary && expression.text == "@";
        return length + (is_product ? 1 : 0);
    }

    std::size_t behind_name(const Expression& name, const Step& step) const
    {
        const std::optional<std::size_t> found = names_.resolve(lengths_.size(), name.text);
        if (!found)
            throw FormulaError(step.formula, name.position, "no earlier step is called " + name.text);
        return lengths_[*found];
    }

    const Recording& recording_;
    StepNames names_;
    std::vector<std::size_t> lengths_; ///< of the steps so far
};

} // namespace

std::size_t products_in_line(const Recording& recording) { return Chains(recording).longest(); }

} // namespace attn
