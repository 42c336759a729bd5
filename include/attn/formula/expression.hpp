#pragma once

#include "attn/core/error.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attn::formula {

struct Keyword;
struct Subscript;

/// A parsed formula, as a tree.
struct Expression {
    enum class Kind {
        number,     ///< 0.5, inf, True: see number; text is how it is written
        name,       ///< a step: text is its name or dotted path
        negated,    ///< -a
        binary,     ///< a OP b: text is one of + - * / @ ** < <= > >= == != & |
        call,       ///< text(a, b, …, keyword=c)
        transposed, ///< a.T
        size,       ///< a.shape[b]
        indexed     ///< a[subscripts]
    };

    Kind kind = Kind::number;
    std::size_t position = 0; ///< where it begins in the formula
    double number = 0;
    std::string text;
    std::vector<Expression> operands;
    std::vector<Keyword> keywords;
    std::vector<Subscript> subscripts;
};

/// An argument by name: axis=0.
struct Keyword {
    std::string name;
    Expression value;
};

/// One entry between brackets, as NumPy understands it: an index, a slice, a new axis, or ... for all axes between.
struct Subscript {
    enum class Kind { index, slice, new_axis, ellipsis };

    Kind kind = Kind::index;
    std::optional<Expression> index; ///< of an index
    std::optional<Expression> start, stop, step;
};

/// A formula that cannot be read or computed: one line with the formula, the place and what was expected.
class FormulaError : public Error {
public:
    FormulaError(std::string_view formula, std::size_t position, std::string_view message);
};

/// Reads a formula.
/// @throws FormulaError where it is not one, or nested too deeply
/// @see docs/formulas.md for the language
Expression parse_formula(std::string_view formula);

/// The functions that a formula can call, and the operators between two operands.
std::vector<std::string_view> function_names();

/// The expressions directly inside one: its operands, the values of its keywords, and what is between its brackets.
std::vector<const Expression*> parts_of(const Expression& expression);

/// A name in a formula: a step that it uses.
struct UsedName {
    std::string name;
    bool is_size_alone = false; ///< only the sizes of its axes are used, as in keys.shape[0]: they are known beforehand
};

/// The names that a formula uses, each once, in the order in which they first stand.
/// @throws FormulaError where it can't be parsed
std::vector<UsedName> names_in(std::string_view formula);

} // namespace attn::formula
