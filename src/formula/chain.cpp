#include "attn/formula/chain.hpp"

#include "attn/formula/expression.hpp"
#include "attn/formula/scope.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

namespace attn {
namespace {

/// The longest chain that ends in each step so far.
class Chains {
public:
    void add(const Step& step)
    {
        const std::size_t length = step.formula.empty() ? 0 : behind(parse_formula(step.formula), step);
        by_path_[step.path] = &step.value;
        lengths_[&step.value] = length;
        longest_ = std::max(longest_, length);
    }

    std::size_t longest() const { return longest_; }

private:
    /// The longest chain that ends in this part of a step's formula.
    std::size_t behind(const Expression& expression, const Step& step) const
    {
        if (expression.kind == Expression::Kind::name)
            return behind_name(expression, step);
        if (expression.kind == Expression::Kind::size)
            return 0;
        std::size_t length = 0;
        for (const Expression& operand : expression.operands)
            length = std::max(length, behind(operand, step));
        for (const Keyword& keyword : expression.keywords)
            length = std::max(length, behind(keyword.value, step));
        for (const Subscript& subscript : expression.subscripts)
            for (const std::optional<Expression>* part :
                 {&subscript.index, &subscript.start, &subscript.stop, &subscript.step})
                if (*part)
                    length = std::max(length, behind(**part, step));
        const bool is_product = expression.kind == Expression::Kind::binary && expression.text == "@";
        return length + (is_product ? 1 : 0);
    }

    std::size_t behind_name(const Expression& name, const Step& step) const
    {
        const Array* found = resolve(step.path, name.text, [&](std::string_view path) -> const Array* {
            const auto entry = by_path_.find(path);
            return entry == by_path_.end() ? nullptr : entry->second;
        });
        if (found == nullptr)
            throw FormulaError(step.formula, name.position, "no earlier step is called " + name.text);
        return lengths_.at(found);
    }

    std::map<std::string, const Array*, std::less<>> by_path_;
    std::map<const Array*, std::size_t> lengths_;
    std::size_t longest_ = 0;
};

} // namespace

std::size_t products_in_line(const std::vector<Step>& steps)
{
    Chains chains;
    for (const Step& step : steps)
        chains.add(step);
    return chains.longest();
}

} // namespace attn
