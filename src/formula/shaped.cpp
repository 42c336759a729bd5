#include "shaped.hpp"

#include "function.hpp"

#include <algorithm>
#include <cmath>

namespace attn::formula {
namespace {

void expect_arguments(const Shaper& shaper, const Function& function, const Expression& call)
{
    const std::size_t given = call.operands.size(), wanted = function.tensors + function.numbers_after;
    const bool has_first_keyword = given == wanted + 1 && !function.keywords.empty(); // x.sum(0)
    if (function.more != Function::More::nothing ? given < wanted : given != wanted && !has_first_keyword)
        throw Error(call.text, " takes ", wanted, " arguments, not ", given);
    for (const Keyword& keyword : call.keywords)
        if (std::ranges::find(function.keywords, keyword.name) == function.keywords.end())
            shaper.fail(keyword.value, call.text + " takes no keyword " + keyword.name);
}

} // namespace

const Expression* keyword(const Expression& call, std::string_view name)
{
    const auto found = std::ranges::find(call.keywords, name, &Keyword::name);
    if (found != call.keywords.end())
        return &found->value;
    const Function* function = find_function(call);
    if (function == nullptr || function->more != Function::More::nothing || function->keywords.empty() ||
        function->keywords.front() != name)
        return nullptr;
    const std::size_t place = function->tensors + function->numbers_after;
    return call.operands.size() > place ? &call.operands[place] : nullptr;
}

ShapedFormula::ShapedFormula(std::string_view text, const Lookup& lookup)
    : text_(text), expression_(parse_formula(text_)), root_(Shaper(text_, lookup).shaped(expression_))
{
}

Cells numbers(std::string_view formula, const Shaped& shaped, const Rounding& rounding,
              const std::function<void(const Shaped& part, const Cells& cells)>& note)
{
    std::vector<Cells> operands;
    operands.reserve(shaped.operands.size());
    for (const Shaped& operand : shaped.operands)
        if (shaped.function->reads != nullptr && shaped.function->reads(operand) && (!note || operand.array != nullptr))
            operands.push_back({operand.shape, {}});
        else
            operands.push_back(numbers(formula, operand, rounding, note));
    Cells cells =
        at_place(formula, *shaped.expression, [&] { return shaped.function->numbers(shaped, operands, rounding); });
    if (note)
        note(shaped, cells);
    return cells;
}

Shaped Shaper::shaped(const Expression& expression) const
{
    constexpr double operations = 200;
    spend(operations);
    return at_place(formula_, expression, [&] {
        Shaped result;
        result.expression = &expression;
        result.function = find_function(expression);
        if (result.function == nullptr)
            throw Error("there is no function ", expression.text);
        const Function& function = *result.function;
        if (expression.kind == Expression::Kind::call)
            expect_arguments(*this, function, expression);
        const std::size_t tensors =
            function.more == Function::More::tensors ? expression.operands.size() : function.tensors;
        result.operands.reserve(tensors);
        for (std::size_t i = 0; i < tensors; ++i)
            result.operands.push_back(shaped(expression.operands[i]));
        function.shape(result, *this);
        element_count(result.shape); // that they can be counted
        return result;
    });
}

const Array& Shaper::array(const std::string& name) const
{
    const Array* array = lookup_(name);
    if (array == nullptr)
        throw Error("no earlier step is called ", name);
    if (element_count(array->shape) != array->size())
        throw Error(name, " doesn't have as many numbers as its shape ", array->shape);
    return *array;
}

std::ptrdiff_t Shaper::whole(const Expression& expression) const { return whole(shaped(expression)); }

std::ptrdiff_t Shaper::whole(const Shaped& scalar) const
{
    const double value = scalar.rank() == 0 ? numbers(formula_, scalar, Rounding(ErrorModel{})).cells[0].value : NAN;
    if (!(value == std::trunc(value) && std::abs(value) <= 1e15))
        fail(*scalar.expression, "expected a whole number");
    return static_cast<std::ptrdiff_t>(value);
}

std::size_t Shaper::count(const Expression& expression) const
{
    const std::ptrdiff_t value = whole(expression);
    if (value < 0)
        fail(expression, "expected a whole number from 0");
    return static_cast<std::size_t>(value);
}

std::size_t Shaper::axis(const Expression& expression, std::size_t rank) const
{
    const std::ptrdiff_t axis = whole(expression), axes = static_cast<std::ptrdiff_t>(rank);
    if (axis < -axes || axis >= axes)
        fail(expression, "there is no axis " + std::to_string(axis) + " in a tensor of " + std::to_string(rank));
    return static_cast<std::size_t>(axis < 0 ? axis + axes : axis);
}

std::optional<std::size_t> Shaper::axis_keyword(const Expression& call, std::size_t rank) const
{
    const Expression* named = keyword(call, "axis");
    return named == nullptr ? std::nullopt : std::optional(axis(*named, rank));
}

std::size_t Shaper::needed_axis(const Expression& call, std::size_t rank) const
{
    const std::optional<std::size_t> axis = axis_keyword(call, rank);
    if (!axis)
        throw Error(call.text, " must say along which axis: axis=0");
    return *axis;
}

void Shaper::fail(const Expression& where, std::string_view message) const
{
    throw FormulaError(formula_, where.position, message);
}

} // namespace attn::formula
