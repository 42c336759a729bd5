#pragma once

#include "attn/core/error.hpp"
#include "attn/formula/evaluate.hpp"
#include "attn/formula/expression.hpp"

#include "cells.hpp"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attn::formula {

struct Function;

/// An expression with all that is known about its value without computing it: its shape, and which cells it takes.
struct Shaped {
    const Function* function = nullptr;
    const Expression* expression = nullptr;
    Shape shape;
    ElementType type = ElementType::real;
    std::vector<Shaped> operands;

    std::vector<Loop> loops; ///< over its cells; of a softmax, over its lines
    std::size_t length = 1;  ///< how many cells of an operand belong to each cell: of a sum, a product, a softmax
    std::vector<std::size_t> steps; ///< how far apart they are, per operand
    const Array* array = nullptr;   ///< of a name
    double number = 0;              ///< of a number or a size

    std::size_t rank() const { return shape.size(); }
};

/// A formula as one tree, parsed and shaped once. All numbers, and the arithmetic of one, are questions to this tree.
class ShapedFormula {
public:
    /// @throws FormulaError where it can't be parsed, a name means nothing, or shapes don't fit
    ShapedFormula(std::string_view text, const Lookup& lookup);
    ShapedFormula(const ShapedFormula&) = delete;
    ShapedFormula& operator=(const ShapedFormula&) = delete;

    const std::string& text() const { return text_; }
    const Shaped& root() const { return root_; }

private:
    std::string text_;
    Expression expression_;
    Shaped root_;
};

/// All numbers of a part of a formula.
/// @param note  is given the numbers of each part of that part, the inner ones first
/// @throws FormulaError at the place of the innermost expression that can't be computed
/// @throws BudgetError where the budget that is being spent doesn't suffice
Cells numbers(std::string_view formula, const Shaped& shaped, const Rounding& rounding,
              const std::function<void(const Shaped& part, const Cells& cells)>& note = {});

/// Does something about an expression; says where it stands in the formula when that fails.
template <class Work>
decltype(auto) at_place(std::string_view formula, const Expression& expression, const Work& work)
{
    try {
        return work();
    } catch (const FormulaError&) {
        throw;
    } catch (const BudgetError&) {
        throw; // it is the whole trace's, wherever it ends
    } catch (const Error& error) {
        throw FormulaError(formula, expression.position, error.what());
    }
}

/// Shapes expressions. The rules of the functions ask it for the whole numbers that shapes depend on.
class Shaper {
public:
    Shaper(std::string_view formula, const Lookup& lookup) : formula_(formula), lookup_(lookup) {}

    /// @throws FormulaError at the place of the innermost expression that doesn't fit
    Shaped shaped(const Expression& expression) const;

    const Array& array(const std::string& name) const;

    /// The value of an expression that has to be a whole number, one from 0, or an axis, where -1 is the last.
    std::ptrdiff_t whole(const Expression& expression) const;
    /// The same of an expression that has been shaped: to shape it again would double the work on every level.
    std::ptrdiff_t whole(const Shaped& scalar) const;
    std::size_t count(const Expression& expression) const;
    std::size_t axis(const Expression& expression, std::size_t rank) const;

    /// The axis that the keyword of a call names; nothing where it names none.
    std::optional<std::size_t> axis_keyword(const Expression& call, std::size_t rank) const;

    /// The same where there has to be one.
    std::size_t needed_axis(const Expression& call, std::size_t rank) const;

    [[noreturn]] void fail(const Expression& where, std::string_view message) const;

private:
    std::string_view formula_;
    const Lookup& lookup_;
};

/// The value of a keyword of a call; nullptr where it isn't given. The first one needs no name: x.sum(0), as in NumPy.
const Expression* keyword(const Expression& call, std::string_view name);

} // namespace attn::formula
