#pragma once

#include "attn/core/array.hpp"
#include "attn/formula/expression.hpp"

#include <string>
#include <string_view>

namespace attn::formula {

/// How tight the operators of a formula bind, from loose to tight; what needs no parentheses is an atom.
enum class Binding { comparison, either, both, sum, product, negation, power, atom };

/// A text, with what decides whether it needs parentheses where it is put.
struct Written {
    std::string text;
    Binding binding = Binding::atom;
    std::size_t negative = 0; ///< so many characters at its start are a negative number, or something negated
};

/// a OP b, with the parentheses that it needs to be read back as that.
Written operation(std::string_view op, Written left, const Written& right, bool is_spaced = true);

/// -x, likewise.
Written negation(const Written& x);

/// A formula as text again, with no more parentheses than it needs: "mean((x - 1) ** 2, axis=0)".
std::string to_text(const Expression& expression);

/// That text with the index of one of its cells: "mean(x, axis=1)[0]", "(x @ w)[0,3]"; without brackets where the
/// index is empty.
std::string to_text(const Expression& expression, const Shape& index);

} // namespace attn::formula
