#include "written.hpp"

namespace attn {
namespace {

Binding binding_of(const Expression& expression)
{
    switch (expression.kind) {
    case Expression::Kind::binary:
        return attn::binding_of(expression.text);
    case Expression::Kind::negated:
        return Binding::negation;
    default:
        return Binding::atom;
    }
}

std::string parenthesized(const Expression& expression, bool is_needed)
{
    return is_needed ? "(" + to_text(expression) + ")" : to_text(expression);
}

/// Something that a subscript, .T or .shape follows.
std::string subject(const Expression& expression)
{
    return parenthesized(expression,
                         binding_of(expression) != Binding::atom || expression.kind == Expression::Kind::number);
}

std::string binary(const Expression& expression)
{
    const Expression &left = expression.operands[0], &right = expression.operands[1];
    return parenthesized(left, needs_parentheses(expression.text, binding_of(left), false)) + " " + expression.text +
           " " + parenthesized(right, needs_parentheses(expression.text, binding_of(right), true));
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

} // namespace

Binding binding_of(std::string_view op)
{
    if (op == "&")
        return Binding::both;
    if (op == "+" || op == "-")
        return Binding::sum;
    if (op == "*" || op == "/" || op == "@")
        return Binding::product;
    return op == "**" ? Binding::power : Binding::comparison;
}

bool needs_parentheses(std::string_view op, Binding operand, bool is_right)
{
    const Binding own = binding_of(op);
    if (own == Binding::power)
        return operand != Binding::atom;
    return is_right || own == Binding::comparison ? operand <= own : operand < own;
}

std::string to_text(const Expression& expression)
{
    switch (expression.kind) {
    case Expression::Kind::number:
        return expression.text == "True" || expression.text == "False" ? expression.text
                                                                       : exact_text(expression.number);
    case Expression::Kind::name:
        return expression.text;
    case Expression::Kind::negated: {
        const Binding operand = binding_of(expression.operands[0]);
        return "-" + parenthesized(expression.operands[0], operand <= Binding::negation);
    }
    case Expression::Kind::binary:
        return binary(expression);
    case Expression::Kind::call:
        return call(expression);
    case Expression::Kind::transposed:
        return subject(expression.operands[0]) + ".T";
    case Expression::Kind::size:
        return subject(expression.operands[0]) + ".shape[" + to_text(expression.operands[1]) + "]";
    case Expression::Kind::indexed:
        return subject(expression.operands[0]) + "[" + entries(expression.subscripts) + "]";
    }
    return {};
}

std::string to_text(const Expression& expression, const Shape& index)
{
    return index.empty() ? to_text(expression) : subject(expression) + bracketed(index);
}

std::string bracketed(const Shape& index)
{
    std::string text;
    for (const std::size_t i : index)
        text += (text.empty() ? "[" : ",") + std::to_string(i);
    return text.empty() ? text : text + "]";
}

} // namespace attn
