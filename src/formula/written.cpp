#include "written.hpp"

namespace attn::formula {
namespace {

Binding binding_of(std::string_view op)
{
    if (op == "|")
        return Binding::either;
    if (op == "&")
        return Binding::both;
    if (op == "+" || op == "-")
        return Binding::sum;
    if (op == "*" || op == "/" || op == "//" || op == "%" || op == "@")
        return Binding::product;
    return op == "**" ? Binding::power : Binding::comparison;
}

bool needs_parentheses(Binding op, Binding operand, bool is_right)
{
    if (op == Binding::power)
        return operand != Binding::atom;
    return is_right || op == Binding::comparison ? operand <= op : operand < op;
}

std::string in_parentheses(const std::string& text) { return "(" + text + ")"; }

/// A text that is not at the beginning, where a negative number is in parentheses.
std::string inside(const Written& x)
{
    return x.negative == 0 ? x.text : in_parentheses(x.text.substr(0, x.negative)) + x.text.substr(x.negative);
}

Written written(const Expression& expression);

/// Something that a subscript, .T or .shape follows.
std::string subject(const Expression& expression)
{
    const Written inner = written(expression);
    const bool is_atom = inner.binding == Binding::atom && expression.kind != Expression::Kind::number;
    return is_atom ? inner.text : in_parentheses(inner.text);
}

std::string call(const Expression& expression)
{
    std::string text;
    for (const Expression& operand : expression.operands)
        text += (text.empty() ? "" : ", ") + to_text(operand);
    for (const Keyword& keyword : expression.keywords)
        text += (text.empty() ? "" : ", ") + keyword.name + "=" + to_text(keyword.value);
    return expression.text + "(" + text + ")";
}

std::string entry(const Subscript& subscript)
{
    const auto part = [](const std::optional<Expression>& given) { return given ? to_text(*given) : std::string(); };
    switch (subscript.kind) {
    case Subscript::Kind::new_axis:
        return "None";
    case Subscript::Kind::ellipsis:
        return "...";
    case Subscript::Kind::index:
        return to_text(*subscript.index);
    case Subscript::Kind::slice:
        break;
    }
    return part(subscript.start) + ":" + part(subscript.stop) + (subscript.step ? ":" + part(subscript.step) : "");
}

std::string entries(const std::vector<Subscript>& subscripts)
{
    std::string text;
    for (const Subscript& subscript : subscripts)
        text += (text.empty() ? "" : ", ") + entry(subscript);
    return text;
}

Written written(const Expression& expression)
{
    const auto operand = [&](std::size_t i) -> const Expression& { return expression.operands[i]; };
    switch (expression.kind) {
    case Expression::Kind::number:
        return {expression.text == "True" || expression.text == "False" ? expression.text
                                                                        : exact_text(expression.number)};
    case Expression::Kind::name:
        return {expression.text};
    case Expression::Kind::negated:
        return {negation(written(operand(0))).text, Binding::negation};
    case Expression::Kind::binary:
        return operation(expression.text, written(operand(0)), written(operand(1)));
    case Expression::Kind::call:
        return {call(expression)};
    case Expression::Kind::transposed:
        return {subject(operand(0)) + ".T"};
    case Expression::Kind::size:
        return {subject(operand(0)) + ".shape[" + to_text(operand(1)) + "]"};
    case Expression::Kind::indexed:
        return {subject(operand(0)) + "[" + entries(expression.subscripts) + "]"};
    }
    return {};
}

} // namespace

Written operation(std::string_view op, Written left, const Written& right, bool is_spaced)
{
    const Binding binding = binding_of(op);
    if (needs_parentheses(binding, left.binding, false))
        left = {in_parentheses(left.text)};
    else if (binding == Binding::power)
        left = {inside(left)};
    left.text += is_spaced ? " " + std::string(op) + " " : std::string(op);
    left.text += needs_parentheses(binding, right.binding, true) ? in_parentheses(right.text) : inside(right);
    left.binding = binding;
    return left;
}

Written negation(const Written& x)
{
    const std::string text = "-" + (x.binding <= Binding::negation ? in_parentheses(x.text) : inside(x));
    return {text, Binding::negation, text.size()};
}

std::string to_text(const Expression& expression) { return written(expression).text; }

std::string to_text(const Expression& expression, const Shape& index)
{
    return index.empty() ? to_text(expression) : subject(expression) + bracketed(index);
}

} // namespace attn::formula
