// Functions and operators of each number, or of each two or three that broadcast.

#include "function.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace attn {
namespace {

using Kind = Expression::Kind;

// ------------------------------------------------------------------------------------------------------ of one number

void shape_real(Shaped& call, const Shaper&) { call.shape = call.operands[0].shape; }

/// Whole numbers stay whole; true and false count as 1 and 0.
void shape_like(Shaped& call, const Shaper&)
{
    call.shape = call.operands[0].shape;
    call.type = common(call.operands[0].type, ElementType::integer);
}

Cells each(const Shaped& call, const std::vector<Cells>& operands, const Rounding& rounding)
{
    Cells result = make_cells(call.shape);
    std::ranges::transform(operands[0].cells, result.cells.begin(),
                           [&](Rounded x) { return call.function->unary(x, rounding); });
    return result;
}

Rounded value_of(const Shaped& call, const Scalar& x, const Scalars& scalars)
{
    return call.function->unary(x.value, scalars.rounding());
}

const Scalar& function_cell(const Shaped& call, std::size_t offset, Scalars& scalars)
{
    const Scalar& x = scalars.cell(call.operands[0], offset);
    return *Arithmetic(scalars, call, offset).function(call.function->name, value_of(call, x, scalars), &x);
}

const Scalar& negated_cell(const Shaped& call, std::size_t offset, Scalars& scalars)
{
    const Scalar& x = scalars.cell(call.operands[0], offset);
    return *Arithmetic(scalars, call, offset).negated(value_of(call, x, scalars), &x);
}

Rounded sigmoid(Rounded x, const Rounding& r)
{
    const double decay = std::exp(-std::abs(x.value));
    const double value = (x.value >= 0 ? 1 : decay) / (1 + decay);
    return r.function(value, value * (1 - value), x);
}

Rounded tanh(Rounded x, const Rounding& r)
{
    const double value = std::tanh(x.value);
    return r.function(value, 1 - value * value, x);
}

Function of_each(std::string_view name, decltype(Function::unary) unary, decltype(Function::shape) shape = shape_real)
{
    return {.name = name, .unary = unary, .shape = shape, .numbers = each, .cell = function_cell};
}

// ----------------------------------------------------------------------------------------------------- of two numbers

/// Broadcasts the operands; the type is left to the caller.
void broadcast_operands(Shaped& call)
{
    for (const Shaped& operand : call.operands)
        call.shape = broadcast(call.shape, operand.shape);
    Loop loop{call.shape, all_of(call.shape), {}};
    for (const Shaped& operand : call.operands)
        loop.from.push_back(broadcast_view(operand.shape, call.shape));
    call.loops.push_back(std::move(loop));
}

void shape_quotient(Shaped& call, const Shaper&) { broadcast_operands(call); }

/// Of sums and products: whole numbers stay whole, true and false count as 1 and 0.
ElementType arithmetic_type(const Shaped& call)
{
    return common(common(call.operands[0].type, call.operands[1].type), ElementType::integer);
}

void shape_arithmetic(Shaped& call, const Shaper&)
{
    broadcast_operands(call);
    call.type = arithmetic_type(call);
}

void shape_comparison(Shaped& call, const Shaper&)
{
    broadcast_operands(call);
    call.type = ElementType::boolean;
}

void shape_both(Shaped& call, const Shaper& shaper)
{
    if (call.operands[0].type != ElementType::boolean || call.operands[1].type != ElementType::boolean)
        throw Error("& wants what is true or false on both sides, such as (a < b) & (c < d)");
    shape_comparison(call, shaper);
}

/// All products of a number of one vector and a number of the other.
void shape_outer(Shaped& call, const Shaper&)
{
    const Shaped &left = call.operands[0], &right = call.operands[1];
    if (left.rank() != 1 || right.rank() != 1)
        throw Error("outer wants two vectors");
    call.type = arithmetic_type(call);
    call.shape = {left.shape[0], right.shape[0]};
    call.loops.push_back({call.shape, all_of(call.shape), {{0, {1, 0}}, {0, {0, 1}}}});
}

Cells each_two(const Shaped& call, const std::vector<Cells>& operands, const Rounding& rounding)
{
    Cells result = make_cells(call.shape);
    const std::vector<Rounded>&left = operands[0].cells, &right = operands[1].cells;
    for_each<2>(call.loops[0], [&](const auto& at) {
        result.cells[at[0]] = call.function->binary(left[at[1]], right[at[2]], rounding);
    });
    return result;
}

const Scalar& binary_cell(const Shaped& call, std::size_t offset, Scalars& scalars, std::string_view op)
{
    const Scalar &left = scalars.operand(call, 0, offset), &right = scalars.operand(call, 1, offset);
    const Rounded value = call.function->binary(left.value, right.value, scalars.rounding());
    return *Arithmetic(scalars, call, offset).binary(op, value, &left, &right);
}

const Scalar& operator_cell(const Shaped& call, std::size_t offset, Scalars& scalars)
{
    return binary_cell(call, offset, scalars, call.function->name);
}

const Scalar& product_cell(const Shaped& call, std::size_t offset, Scalars& scalars)
{
    return binary_cell(call, offset, scalars, "*");
}

Rounded truth(bool is_so) { return {is_so ? 1.0 : 0.0, 0}; }

Rounded multiply(Rounded a, Rounded b, const Rounding& r) { return r.multiply(a, b); }

Rounded power(Rounded base, Rounded exponent, const Rounding& rounding)
{
    const double value = std::pow(base.value, exponent.value);
    const double by_base =
        base.error == 0 ? 0 : std::abs(exponent.value * std::pow(base.value, exponent.value - 1)) * base.error;
    const double by_exponent =
        exponent.error == 0 ? 0 : std::abs(value * std::log(std::abs(base.value))) * exponent.error;
    return rounding.result(value, by_base + by_exponent, 4);
}

Function of_two(std::string_view op, decltype(Function::binary) binary, decltype(Function::shape) shape)
{
    return {.kind = Kind::binary,
            .name = op,
            .tensors = 2,
            .binary = binary,
            .shape = shape,
            .numbers = each_two,
            .cell = operator_cell};
}

// ---------------------------------------------------------------------------------------------------------- of a choice

void shape_where(Shaped& call, const Shaper&)
{
    broadcast_operands(call);
    call.type = common(call.operands[1].type, call.operands[2].type);
}

Cells chosen(const Shaped& call, const std::vector<Cells>& operands, const Rounding&)
{
    Cells result = make_cells(call.shape);
    const std::vector<Rounded>&condition = operands[0].cells, &yes = operands[1].cells, &no = operands[2].cells;
    for_each<3>(call.loops[0],
                [&](const auto& at) { result.cells[at[0]] = condition[at[1]].value != 0 ? yes[at[2]] : no[at[3]]; });
    return result;
}

const Scalar& chosen_cell(const Shaped& call, std::size_t offset, Scalars& scalars)
{
    const Scalar& condition = scalars.operand(call, 0, offset);
    const Scalar& taken = scalars.operand(call, condition.value.value != 0 ? 1 : 2, offset);
    return *Arithmetic(scalars, call, offset).noted(Scalar::Note::branch, &taken, &condition);
}

} // namespace

std::span<const Function> elementwise_functions()
{
    using R = const Rounding&;
    static const Function functions[] = {
        {.kind = Kind::negated,
         .unary =
             [](Rounded x, R r) {
                 return r.multiply({-1, 0}, x);
             },
         .shape = shape_like,
         .numbers = each,
         .cell = negated_cell},
        of_each("exp", [](Rounded x, R r) { return r.exponential(x); }),
        of_each("log", [](Rounded x, R r) { return r.function(std::log(x.value), 1 / x.value, x); }),
        of_each("sqrt", [](Rounded x, R r) { return r.function(std::sqrt(x.value), 0.5 / std::sqrt(x.value), x); }),
        of_each("tanh", tanh),
        of_each("sigmoid", sigmoid),
        of_each(
            "relu",
            [](Rounded x, R) {
                return x.value < 0 ? Rounded{0, x.error} : x;
            },
            shape_like),
        of_each(
            "abs",
            [](Rounded x, R) {
                return Rounded{std::abs(x.value), x.error};
            },
            shape_like),
        of_each("erf",
                [](Rounded x, R r) {
                    return r.function(std::erf(x.value), 2 * std::numbers::inv_sqrtpi * std::exp(-x.value * x.value),
                                      x);
                }),
        of_each("sin", [](Rounded x, R r) { return r.function(std::sin(x.value), 1, x); }),
        of_each("cos", [](Rounded x, R r) { return r.function(std::cos(x.value), 1, x); }),
        of_each("floor",
                [](Rounded x, R) {
                    return Rounded{std::floor(x.value), 0};
                }),

        of_two(
            "+", [](Rounded a, Rounded b, R r) { return r.add(a, b); }, shape_arithmetic),
        of_two(
            "-", [](Rounded a, Rounded b, R r) { return r.subtract(a, b); }, shape_arithmetic),
        of_two("*", multiply, shape_arithmetic),
        of_two(
            "/", [](Rounded a, Rounded b, R r) { return r.divide(a, b); }, shape_quotient),
        of_two("**", power, shape_quotient),
        of_two(
            "<", [](Rounded a, Rounded b, R) { return truth(a.value < b.value); }, shape_comparison),
        of_two(
            "<=", [](Rounded a, Rounded b, R) { return truth(a.value <= b.value); }, shape_comparison),
        of_two(
            ">", [](Rounded a, Rounded b, R) { return truth(a.value > b.value); }, shape_comparison),
        of_two(
            ">=", [](Rounded a, Rounded b, R) { return truth(a.value >= b.value); }, shape_comparison),
        of_two(
            "==", [](Rounded a, Rounded b, R) { return truth(a.value == b.value); }, shape_comparison),
        of_two(
            "&", [](Rounded a, Rounded b, R) { return truth(a.value != 0 && b.value != 0); }, shape_both),
        {.name = "outer",
         .tensors = 2,
         .binary = multiply,
         .shape = shape_outer,
         .numbers = each_two,
         .cell = product_cell},
        {.name = "where", .tensors = 3, .shape = shape_where, .numbers = chosen, .cell = chosen_cell},
    };
    return functions;
}

} // namespace attn
