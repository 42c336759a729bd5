#include "shaped.hpp"

#include <algorithm>
#include <cmath>

namespace attn {
namespace {

using Operation = Shaped::Operation;

const Expression* keyword(const Expression& call, std::string_view name)
{
    for (const auto& [given, value] : call.keywords)
        if (given == name)
            return &value;
    return nullptr;
}

Shape front(const Shape& shape, std::size_t without_last)
{
    return Shape(shape.begin(), shape.end() - static_cast<std::ptrdiff_t>(without_last));
}

Shape matmul_shape(const Shape& left, const Shape& right)
{
    if (left.empty() || right.empty())
        throw Error("@ wants vectors or matrices, not a single number");
    const bool is_row = left.size() == 1, is_column = right.size() == 1;
    if (left.back() != right[right.size() - (is_column ? 1 : 2)])
        throw Error("the shapes " + to_string(left) + " and " + to_string(right) + " don't fit @");
    Shape shape = broadcast(front(left, is_row ? 1 : 2), front(right, is_column ? 1 : 2));
    if (!is_row)
        shape.push_back(left[left.size() - 2]);
    if (!is_column)
        shape.push_back(right.back());
    return shape;
}

/// How many axes the entry ... stands for: all that no other entry takes.
std::size_t axes_behind_ellipsis(std::size_t rank, const std::vector<Subscript>& subscripts)
{
    const auto number_of = [&](Subscript::Kind kind) {
        return static_cast<std::size_t>(std::ranges::count(subscripts, kind, &Subscript::kind));
    };
    const std::size_t ellipses = number_of(Subscript::Kind::ellipsis);
    if (ellipses > 1)
        throw Error("only one ... can stand for the axes that are not written");
    const std::size_t taken = subscripts.size() - ellipses - number_of(Subscript::Kind::new_axis);
    return ellipses == 1 && rank > taken ? rank - taken : 0;
}

Range whole_axis(std::size_t length) { return {Range::Kind::slice, 0, static_cast<std::ptrdiff_t>(length)}; }

Shape shape_of(const std::vector<Range>& ranges)
{
    Shape shape;
    for (const Range& range : ranges)
        if (range.kind != Range::Kind::index)
            shape.push_back(static_cast<std::size_t>(range.count));
    return shape;
}

} // namespace

Shaped Shaper::shaped(const Expression& expression)
{
    try {
        Shaped result = shaped_kind(expression);
        element_count(result.shape); // that they can be counted
        return result;
    } catch (const FormulaError&) {
        throw;
    } catch (const Error& error) {
        throw FormulaError(formula_, expression.position, error.what());
    }
}

Shaped Shaper::shaped_kind(const Expression& e)
{
    Shaped result;
    result.id = ids_++;
    result.expression = &e;
    switch (e.kind) {
    case Expression::Kind::number:
        result.number = e.number;
        break;
    case Expression::Kind::name:
        name(result);
        break;
    case Expression::Kind::negated:
        result.operation = Operation::negated;
        result.shape = operand(result, 0).shape;
        break;
    case Expression::Kind::binary:
        binary(result);
        break;
    case Expression::Kind::transposed:
        result.operation = Operation::transposed;
        result.shape = operand(result, 0).shape;
        result.truth = result.operands[0].truth;
        if (result.rank() > 1)
            std::swap(result.shape[result.rank() - 1], result.shape[result.rank() - 2]);
        break;
    case Expression::Kind::size: {
        result.operation = Operation::size;
        const Shape& shape = operand(result, 0).shape;
        result.number = static_cast<double>(shape[axis_of(e.operands[1], shape.size())]);
        break;
    }
    case Expression::Kind::indexed:
        subscripted(result);
        break;
    case Expression::Kind::call:
        called(result);
        break;
    }
    return result;
}

/// The shaped operand; result keeps it.
const Shaped& Shaper::operand(Shaped& result, std::size_t i)
{
    return result.operands.emplace_back(shaped(result.expression->operands[i]));
}

void Shaper::name(Shaped& result) const
{
    result.operation = Operation::name;
    result.array = lookup_(result.expression->text);
    if (result.array == nullptr)
        throw Error("no earlier step is called " + result.expression->text);
    result.shape = result.array->shape;
    if (element_count(result.shape) != result.array->size())
        throw Error(result.expression->text + " doesn't have as many numbers as its shape " + to_string(result.shape));
    result.truth = result.array->type == ElementType::boolean;
}

void Shaper::binary(Shaped& result)
{
    const std::string& op = result.expression->text;
    operand(result, 0);
    operand(result, 1);
    const Shaped &left = result.operands[0], &right = result.operands[1];
    if (op == "@") {
        result.operation = Operation::matmul;
        result.shape = matmul_shape(left.shape, right.shape);
        return;
    }
    if (op == "&" && !(left.truth && right.truth))
        throw Error("& wants what is true or false on both sides, such as (a < b) & (c < d)");
    result.operation = Operation::elementwise;
    result.shape = broadcast(left.shape, right.shape);
    result.truth = op == "<" || op == "<=" || op == ">" || op == ">=" || op == "==" || op == "&";
}

// ------------------------------------------------------------------------------------------------------ whole numbers

std::ptrdiff_t Shaper::whole(const Expression& expression)
{
    const Shaped scalar = shaped(expression);
    const double value = scalar.rank() == 0 ? number_of_(scalar) : NAN;
    if (!(value == std::trunc(value) && std::abs(value) <= 1e15))
        throw FormulaError(formula_, expression.position, "expected a whole number");
    return static_cast<std::ptrdiff_t>(value);
}

std::size_t Shaper::count(const Expression& expression)
{
    const std::ptrdiff_t value = whole(expression);
    if (value < 0)
        throw FormulaError(formula_, expression.position, "expected a whole number from 0");
    return static_cast<std::size_t>(value);
}

std::size_t Shaper::axis_of(const Expression& expression, std::size_t rank)
{
    const std::ptrdiff_t axis = whole(expression), axes = static_cast<std::ptrdiff_t>(rank);
    if (axis < -axes || axis >= axes)
        throw FormulaError(formula_, expression.position,
                           "there is no axis " + std::to_string(axis) + " in a tensor of " + std::to_string(rank));
    return static_cast<std::size_t>(axis < 0 ? axis + axes : axis);
}

/// The axis that a call names, or the one it has unless named.
std::size_t Shaper::axis_or(const Expression& call, std::size_t rank, std::optional<std::ptrdiff_t> otherwise)
{
    if (const Expression* axis = keyword(call, "axis"))
        return axis_of(*axis, rank);
    if (!otherwise)
        throw Error(call.text + " must say along which axis: axis=0");
    if (rank == 0)
        throw Error(call.text + " wants an axis, not a single number");
    return static_cast<std::size_t>(*otherwise + static_cast<std::ptrdiff_t>(rank));
}

// --------------------------------------------------------------------------------------------------------- subscripts

void Shaper::subscripted(Shaped& result)
{
    const std::vector<Subscript>& subscripts = result.expression->subscripts;
    const Shape shape = operand(result, 0).shape;
    if (subscripts.size() == 1 && subscripts[0].kind == Subscript::Kind::index) {
        Shaped ids = shaped(*subscripts[0].index);
        if (ids.rank() > 0) {
            if (shape.empty())
                throw Error("a single number has no rows to gather");
            result.operation = Operation::gathered;
            result.shape = ids.shape;
            result.shape.insert(result.shape.end(), shape.begin() + 1, shape.end());
            result.operands.push_back(std::move(ids));
            return;
        }
    }
    result.operation = Operation::indexed;
    result.truth = result.operands[0].truth;
    std::size_t axis = 0, skipped = axes_behind_ellipsis(shape.size(), subscripts);
    for (const Subscript& subscript : subscripts) {
        if (subscript.kind == Subscript::Kind::new_axis) {
            result.ranges.push_back({Range::Kind::new_axis});
            continue;
        }
        if (subscript.kind == Subscript::Kind::ellipsis) {
            for (; skipped > 0; --skipped)
                result.ranges.push_back(whole_axis(shape[axis++]));
            continue;
        }
        if (axis == shape.size())
            throw Error("more subscripts than the " + std::to_string(shape.size()) + " axes of " + to_string(shape));
        const auto length = static_cast<std::ptrdiff_t>(shape[axis++]);
        result.ranges.push_back(subscript.kind == Subscript::Kind::index ? index(subscript, length)
                                                                         : slice(subscript, length));
    }
    while (axis < shape.size())
        result.ranges.push_back(whole_axis(shape[axis++]));
    result.shape = shape_of(result.ranges);
}

Range Shaper::index(const Subscript& subscript, std::ptrdiff_t length)
{
    const std::ptrdiff_t at = whole(*subscript.index);
    if (at < -length || at >= length)
        throw FormulaError(formula_, subscript.index->position,
                           "there is no index " + std::to_string(at) + " on an axis of " + std::to_string(length));
    return {Range::Kind::index, at < 0 ? at + length : at};
}

/// As Python: ends beyond the axis are cut, negative ones count from the end.
Range Shaper::slice(const Subscript& subscript, std::ptrdiff_t length)
{
    const std::ptrdiff_t step = subscript.step ? whole(*subscript.step) : 1;
    if (step == 0)
        throw FormulaError(formula_, subscript.step->position, "a slice's step can't be 0");
    const std::ptrdiff_t lowest = step > 0 ? 0 : -1, highest = step > 0 ? length : length - 1;
    const auto bound = [&](const std::optional<Expression>& given, std::ptrdiff_t otherwise) {
        if (!given)
            return otherwise;
        const std::ptrdiff_t at = whole(*given);
        return std::clamp(at < 0 ? at + length : at, lowest, highest);
    };
    const std::ptrdiff_t start = bound(subscript.start, step > 0 ? lowest : highest);
    const std::ptrdiff_t stop = bound(subscript.stop, step > 0 ? highest : lowest);
    const std::ptrdiff_t distance = step > 0 ? stop - start : start - stop;
    const std::ptrdiff_t stride = std::abs(step);
    return {Range::Kind::slice, start, distance > 0 ? (distance + stride - 1) / stride : 0, step};
}

// ---------------------------------------------------------------------------------------------------------- functions

void Shaper::expect(const Expression& call, std::size_t arguments,
                    std::initializer_list<std::string_view> keywords) const
{
    if (call.operands.size() != arguments)
        throw Error(call.text + " takes " + std::to_string(arguments) + " arguments, not " +
                    std::to_string(call.operands.size()));
    for (const auto& [name, value] : call.keywords)
        if (std::ranges::find(keywords, name) == keywords.end())
            throw FormulaError(formula_, value.position, call.text + " takes no keyword " + name);
}

void Shaper::called(Shaped& result)
{
    const Expression& call = *result.expression;
    const std::string& name = call.text;
    if (name == "sum" || name == "mean" || name == "max" || name == "min")
        return reduce(result);
    if (name == "softmax") {
        expect(call, 1, {"axis"});
        result.operation = Operation::softmax;
        result.shape = operand(result, 0).shape;
        result.axis = axis_or(call, result.rank(), -1);
    } else if (name == "where") {
        expect(call, 3, {});
        result.operation = Operation::where;
        const Shape condition = operand(result, 0).shape, yes = operand(result, 1).shape;
        result.shape = broadcast(condition, broadcast(yes, operand(result, 2).shape));
        result.truth = result.operands[1].truth && result.operands[2].truth;
    } else if (name == "concat") {
        concat(result);
    } else if (name == "repeat") {
        repeat(result);
    } else if (name == "interleave" || name == "outer") {
        pair(result);
    } else if (name == "diag") {
        expect(call, 1, {});
        result.operation = Operation::diag;
        const Shape& shape = operand(result, 0).shape;
        if (shape.size() != 1)
            throw Error("diag wants a vector, not a tensor " + to_string(shape));
        result.shape = {shape[0], shape[0]};
    } else if (name == "arange") {
        expect(call, 1, {});
        result.operation = Operation::arange;
        result.shape = {count(call.operands[0])};
    } else if (name == "reshape" || name == "permute") {
        rearrange(result);
    } else {
        expect(call, 1, {});
        result.operation = Operation::function;
        result.shape = operand(result, 0).shape;
        if (!elementary(name, make_cells({}), Rounding(double_roundoff)))
            throw Error("there is no function " + name);
    }
}

void Shaper::reduce(Shaped& result)
{
    const Expression& call = *result.expression;
    expect(call, 1, {"axis", "keepdims"});
    result.operation = Operation::reduced;
    const Shape shape = operand(result, 0).shape;
    const Expression* keep = keyword(call, "keepdims");
    if (keep != nullptr && keep->text != "True" && keep->text != "False")
        throw FormulaError(formula_, keep->position, "expected True or False");
    result.keeps_axes = keep != nullptr && keep->text == "True";
    if (const Expression* axis = keyword(call, "axis"))
        result.axis = axis_of(*axis, shape.size());
    if (result.keeps_axes)
        result.shape = result.axis ? shape : Shape(shape.size(), 1);
    if (result.keeps_axes && result.axis)
        result.shape[*result.axis] = 1;
    if (!result.keeps_axes && result.axis) {
        result.shape = shape;
        result.shape.erase(result.shape.begin() + static_cast<std::ptrdiff_t>(*result.axis));
    }
}

void Shaper::concat(Shaped& result)
{
    const Expression& call = *result.expression;
    expect(call, std::max<std::size_t>(call.operands.size(), 1), {"axis"});
    result.operation = Operation::concat;
    for (std::size_t i = 0; i < call.operands.size(); ++i)
        operand(result, i);
    result.shape = result.operands[0].shape;
    const std::size_t axis = axis_or(call, result.rank(), std::nullopt);
    result.axis = axis;
    result.shape[axis] = 0;
    for (const Shaped& part : result.operands) {
        Shape like = part.shape;
        if (like.size() == result.rank())
            like[axis] = result.shape[axis];
        if (like != result.shape)
            throw Error("concat: the shapes " + to_string(result.operands[0].shape) + " and " + to_string(part.shape) +
                        " differ elsewhere than along axis " + std::to_string(axis));
        result.shape[axis] += part.shape[axis];
    }
}

void Shaper::repeat(Shaped& result)
{
    const Expression& call = *result.expression;
    expect(call, 2, {"axis"});
    result.operation = Operation::repeat;
    result.shape = operand(result, 0).shape;
    result.count = count(call.operands[1]);
    result.axis = axis_or(call, result.rank(), std::nullopt);
    if (__builtin_mul_overflow(result.shape[*result.axis], result.count, &result.shape[*result.axis]))
        throw Error("repeat: too many times");
}

void Shaper::pair(Shaped& result)
{
    expect(*result.expression, 2, {});
    const Shape first = operand(result, 0).shape, second = operand(result, 1).shape;
    if (result.expression->text == "outer") {
        if (first.size() != 1 || second.size() != 1)
            throw Error("outer wants two vectors");
        result.operation = Operation::outer;
        result.shape = {first[0], second[0]};
        return;
    }
    if (first != second || first.empty())
        throw Error("interleave: the shapes " + to_string(first) + " and " + to_string(second) + " differ");
    result.operation = Operation::interleave;
    result.shape = first;
    if (__builtin_mul_overflow(first.back(), std::size_t{2}, &result.shape.back()))
        throw Error("interleave: too many numbers");
}

void Shaper::rearrange(Shaped& result)
{
    const Expression& call = *result.expression;
    expect(call, std::max<std::size_t>(call.operands.size(), 1), {});
    const Shape shape = operand(result, 0).shape;
    const bool is_reshape = call.text == "reshape";
    result.operation = is_reshape ? Operation::reshape : Operation::permute;
    result.truth = result.operands[0].truth;
    std::vector<std::size_t> numbers;
    for (std::size_t i = 1; i < call.operands.size(); ++i)
        numbers.push_back(is_reshape ? count(call.operands[i]) : axis_of(call.operands[i], shape.size()));
    if (is_reshape) {
        if (element_count(numbers) != element_count(shape))
            throw Error("reshape: " + to_string(shape) + " doesn't have as many numbers as " + to_string(numbers));
        result.shape = numbers;
        return;
    }
    std::vector<std::size_t> sorted = numbers;
    std::ranges::sort(sorted);
    for (std::size_t axis = 0; axis < sorted.size() || axis < shape.size(); ++axis)
        if (sorted.size() != shape.size() || sorted[axis] != axis)
            throw Error("permute wants each of the " + std::to_string(shape.size()) + " axes once");
    for (const std::size_t axis : numbers)
        result.shape.push_back(shape[axis]);
    result.order = numbers;
}

} // namespace attn
