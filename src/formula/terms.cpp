#include "terms.hpp"

#include <array>
#include <charconv>
#include <utility>

namespace attn::formula::terms {
namespace {

Expression node(Expression::Kind kind, std::vector<Expression> operands, std::string_view text = {})
{
    Expression expression;
    expression.kind = kind;
    expression.text = text;
    expression.operands = std::move(operands);
    return expression;
}

Expression binary(Expression a, std::string_view op, Expression b)
{
    std::vector<Expression> operands;
    operands.push_back(std::move(a));
    operands.push_back(std::move(b));
    return node(Expression::Kind::binary, std::move(operands), op);
}

Expression wrapped(Expression::Kind kind, Expression inner)
{
    std::vector<Expression> operands;
    operands.push_back(std::move(inner));
    return node(kind, std::move(operands));
}

Subscript everything() { return {Subscript::Kind::slice, {}, {}, {}, {}}; }

/// The axes in front of one, as subscripts; for the last one `...` stands for them all.
std::vector<Subscript> before(std::size_t axis, std::size_t rank)
{
    if (axis > 0 && axis + 1 == rank)
        return {{Subscript::Kind::ellipsis, {}, {}, {}, {}}};
    return std::vector<Subscript>(axis, everything());
}

Expression indexed(Expression x, std::vector<Subscript> subscripts)
{
    Expression result = wrapped(Expression::Kind::indexed, std::move(x));
    result.subscripts = std::move(subscripts);
    return result;
}

} // namespace

Expression number(double value)
{
    std::array<char, 32> text{};
    const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
    Expression expression = node(Expression::Kind::number, {}, {text.data(), end});
    expression.number = value;
    return expression;
}

Expression whole(std::ptrdiff_t value) { return value < 0 ? -whole(-value) : number(static_cast<double>(value)); }

Expression operator-(Expression x) { return wrapped(Expression::Kind::negated, std::move(x)); }
Expression operator+(Expression a, Expression b) { return binary(std::move(a), "+", std::move(b)); }
Expression operator-(Expression a, Expression b) { return binary(std::move(a), "-", std::move(b)); }
Expression operator*(Expression a, Expression b) { return binary(std::move(a), "*", std::move(b)); }
Expression operator/(Expression a, Expression b) { return binary(std::move(a), "/", std::move(b)); }
Expression floored(Expression a, Expression b) { return binary(std::move(a), "//", std::move(b)); }
Expression product(Expression a, Expression b) { return binary(std::move(a), "@", std::move(b)); }
Expression power(Expression base, Expression exponent) { return binary(std::move(base), "**", std::move(exponent)); }
Expression compared(Expression a, std::string_view op, Expression b) { return binary(std::move(a), op, std::move(b)); }

Expression transposed(Expression x)
{
    if (x.kind == Expression::Kind::transposed)
        return std::move(x.operands[0]);
    if (x.kind == Expression::Kind::binary && x.text == "@")
        return product(transposed(std::move(x.operands[1])), transposed(std::move(x.operands[0])));
    return wrapped(Expression::Kind::transposed, std::move(x));
}

Expression call(std::string_view function, std::vector<Expression> operands, std::vector<Keyword> keywords)
{
    Expression result = node(Expression::Kind::call, std::move(operands), function);
    result.keywords = std::move(keywords);
    return result;
}

Expression chosen(Expression condition, Expression yes, Expression no)
{
    return call("where", {std::move(condition), std::move(yes), std::move(no)});
}

Expression along(std::string_view function, Expression x, std::size_t axis, std::size_t rank, bool keeps_axis)
{
    std::vector<Keyword> keywords{{"axis", axis + 1 == rank ? whole(-1) : whole(static_cast<std::ptrdiff_t>(axis))}};
    if (keeps_axis) {
        keywords.push_back({"keepdims", node(Expression::Kind::number, {}, "True")});
        keywords.back().value.number = 1;
    }
    return call(function, {std::move(x)}, std::move(keywords));
}

Expression reshaped(Expression x, const Shape& shape)
{
    std::vector<Expression> operands{std::move(x)};
    for (const std::size_t size : shape)
        operands.push_back(number(static_cast<double>(size)));
    return call("reshape", std::move(operands));
}

Expression widened(Expression x, std::size_t axis, std::size_t rank)
{
    std::vector<Subscript> subscripts = before(axis, rank);
    subscripts.push_back({Subscript::Kind::new_axis, {}, {}, {}, {}});
    return indexed(std::move(x), std::move(subscripts));
}

Expression sliced(Expression x, std::size_t axis, std::size_t rank, std::size_t start, std::size_t stop,
                  std::size_t length, std::ptrdiff_t step)
{
    std::vector<Subscript> subscripts = before(axis, rank);
    Subscript slice = everything();
    if (start > 0)
        slice.start = number(static_cast<double>(start));
    if (stop < length)
        slice.stop = number(static_cast<double>(stop));
    if (step != 1)
        slice.step = whole(step);
    subscripts.push_back(std::move(slice));
    return indexed(std::move(x), std::move(subscripts));
}

Expression summed_to(const Shape& shape, Expression x, const Shape& from)
{
    std::size_t rank = from.size();
    for (; rank > shape.size(); --rank)
        x = along("sum", std::move(x), 0, rank == 1 ? 2 : rank); // axis=0, of a vector too
    for (std::size_t axis = 0; axis < rank; ++axis)
        if (shape[axis] == 1 && from[from.size() - rank + axis] != 1)
            x = along("sum", std::move(x), axis, rank, true);
    return x;
}

} // namespace attn::formula::terms
