// Functions and operators of each number, or of each two or three that broadcast.

#include "function.hpp"
#include "terms.hpp"

#include "attn/core/number_type.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace attn::formula {
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
    Rounded result = r.function(value, value * (1 - value), x);
    result.error += r.unit(); // others compute it as (1 + tanh(x / 2)) / 2, which rounds numbers near one
    return result;
}

Rounded tanh(Rounded x, const Rounding& r)
{
    const double value = std::tanh(x.value);
    return r.function(value, 1 - value * value, x);
}

/// A function that jumps from one number to the next: what is given is not exact, and the result can be on either side of a jump.
template <class Jumps>
Rounded jumping(Rounded x, const Jumps& jumps)
{
    const double value = jumps(x.value);
    if (x.error == 0 || !std::isfinite(x.value))
        return {value, x.is_unknown() ? unknown_error : 0};
    const double off = std::max(value - jumps(x.value - x.error), jumps(x.value + x.error) - value);
    return {value, std::isfinite(off) ? off : unknown_error};
}

/// The nearest whole number, ties to even.
Rounded nearest_whole(Rounded x, const Rounding&)
{
    return jumping(x, [](double number) { return std::nearbyint(number); });
}

/// The nearest number of a type, ties to even.
template <NumberType type>
Rounded nearest_of(Rounded x, const Rounding&)
{
    return jumping(x, [](double number) { return rounded_to(type, number); });
}

using Gradient = decltype(Function::gradient);

/// @param gradient  what arrives at x, of the gradient of the function of x
Function of_each(std::string_view name, decltype(Function::unary) unary, Gradient gradient,
                 decltype(Function::shape) shape = shape_real)
{
    return {.name = name, .unary = unary, .shape = shape, .numbers = each, .cell = function_cell, .gradient = gradient};
}

/// float16(x), …: a function for each type that is shorter than what is computed with.
template <NumberType type>
Function of_type()
{
    return of_each(name_of(type), nearest_of<type>, nullptr);
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

void shape_logical(Shaped& call, const Shaper& shaper)
{
    if (call.operands[0].type != ElementType::boolean || call.operands[1].type != ElementType::boolean)
        throw Error("& and | need booleans on both sides, such as (a < b) & (c < d)");
    shape_comparison(call, shaper);
}

/// All products of a number of one vector and a number of the other.
void shape_outer(Shaped& call, const Shaper&)
{
    const Shaped &left = call.operands[0], &right = call.operands[1];
    if (left.rank() != 1 || right.rank() != 1)
        throw Error("outer needs two vectors");
    call.type = arithmetic_type(call);
    call.shape = {left.shape[0], right.shape[0]};
    call.loops.push_back({call.shape, all_of(call.shape), {{0, {1, 0}}, {0, {0, 1}}}});
}

bool is_sum(const Shaped& part)
{
    return part.function != nullptr && (part.function->name == "+" || part.function->name == "-") &&
           part.operands.size() == 2;
}

std::size_t terms_of(const Shaped& part)
{
    if (is_sum(part))
        return terms_of(part.operands[0]) + terms_of(part.operands[1]);
    const bool is_line = part.function != nullptr && (part.function->name == "sum" || part.function->name == "@");
    return is_line ? std::max<std::size_t>(part.length, 1) : 1;
}

/// The operation on two numbers.
class OfTwo {
public:
    OfTwo(const Shaped& call, const Rounding& rounding) : function_(*call.function), rounding_(rounding)
    {
        if (is_sum(call))
            terms_ = {terms_of(call.operands[0]), terms_of(call.operands[1])};
    }
    Rounded operator()(Rounded a, Rounded b) const
    {
        const Rounded result = function_.binary(a, b, rounding_);
        return terms_ == one_each ? result : rounding_.term_by_term(result, a, terms_[0], b, terms_[1]);
    }

private:
    static constexpr std::array<std::size_t, 2> one_each{1, 1};
    const Function& function_;
    const Rounding& rounding_;
    std::array<std::size_t, 2> terms_ = one_each;
};

Cells each_two(const Shaped& call, const std::vector<Cells>& operands, const Rounding& rounding)
{
    Cells result = make_cells(call.shape);
    const std::vector<Rounded>&left = operands[0].cells, &right = operands[1].cells;
    const OfTwo of_two(call, rounding);
    for_each_in_parts<2>(call.loops[0], 1,
                         [&](const auto& at) { result.cells[at[0]] = of_two(left[at[1]], right[at[2]]); });
    return result;
}

const Scalar& binary_cell(const Shaped& call, std::size_t offset, Scalars& scalars, std::string_view op)
{
    const Scalar &left = scalars.operand(call, 0, offset), &right = scalars.operand(call, 1, offset);
    const Rounded value = OfTwo(call, scalars.rounding())(left.value, right.value);
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

Rounded truth(bool is_so, Rounded a, Rounded b)
{
    return {is_so ? 1.0 : 0.0, a.is_unknown() || b.is_unknown() ? unknown_error : 0};
}

Rounded multiply(Rounded a, Rounded b, const Rounding& r) { return r.multiply(a, b); }

/// The larger or smaller one; NaN where one is.
template <bool is_largest>
Rounded extreme(Rounded a, Rounded b, const Rounding& r)
{
    return r.extreme(
        2, [&](std::size_t i) { return i == 0 ? a : b; }, is_largest);
}

template <bool is_largest>
const Scalar& extreme_cell(const Shaped& call, std::size_t offset, Scalars& scalars)
{
    const auto operand = [&](std::size_t i) { return &scalars.operand(call, i, offset); };
    return *Arithmetic(scalars, call, offset).extreme(2, operand, is_largest);
}

/// The largest whole number that the quotient reaches, as Python has it: of exact numbers exactly.
double whole_quotient(double a, double b)
{
    if (b == 0 || !std::isfinite(a) || !std::isfinite(b))
        return std::floor(a / b);
    double rest = std::fmod(a, b);
    if (rest != 0 && (rest < 0) != (b < 0))
        rest += b;
    return std::round((a - rest) / b);
}

/// By how much a whole quotient can jump, because what is divided is not exact.
double jump_of_quotient(Rounded a, Rounded b)
{
    const double quotient = a.value / b.value;
    const double error = (a.error + std::abs(quotient) * b.error) / std::abs(b.value);
    if (a.error == 0 && b.error == 0)
        return 0;
    return std::isfinite(error) ? std::floor(quotient + error) - std::floor(quotient - error) : unknown_error;
}

Rounded floor_divided(Rounded a, Rounded b, const Rounding&)
{
    return {whole_quotient(a.value, b.value), jump_of_quotient(a, b)};
}

/// What a whole quotient leaves, with the sign of the divisor.
Rounded modulo(Rounded a, Rounded b, const Rounding& r)
{
    double rest = std::fmod(a.value, b.value); // exact
    if (rest != 0 && (rest < 0) != (b.value < 0))
        rest += b.value;
    const double jump = jump_of_quotient(a, b), whole = whole_quotient(a.value, b.value);
    const double inherited = a.error + (b.error == 0 ? 0 : std::abs(whole) * b.error);
    return r.result(rest, inherited + (jump == 0 ? 0 : jump * std::abs(b.value)));
}

Rounded raised(Rounded base, Rounded exponent, const Rounding& rounding)
{
    const double value = std::pow(base.value, exponent.value);
    const double by_base =
        base.error == 0 ? 0 : std::abs(exponent.value * std::pow(base.value, exponent.value - 1)) * base.error;
    const double by_exponent =
        exponent.error == 0 ? 0 : std::abs(value * std::log(std::abs(base.value))) * exponent.error;
    const bool is_undefined = base.value == 0 || std::isnan(value); // no overflow: 1 / 0, or a root of -1
    if (is_undefined && !std::isfinite(value) && !base.is_unknown() && !exponent.is_unknown())
        return {value, 0};
    return rounding.result(value, base, exponent, by_base + by_exponent, rounding.library_roundings());
}

Function of_two(std::string_view op, decltype(Function::binary) binary, decltype(Function::shape) shape,
                Gradient gradient = nullptr)
{
    return {.kind = Kind::binary,
            .name = op,
            .tensors = 2,
            .binary = binary,
            .shape = shape,
            .numbers = each_two,
            .cell = operator_cell,
            .gradient = gradient};
}

// ---------------------------------------------------------------------------------------------------------- gradients

using namespace terms;

Expression exponential_gradient(const Backward& at, std::size_t) { return at.grad * at.result; }
Expression logarithm_gradient(const Backward& at, std::size_t) { return at.grad / at.operands[0]; }
Expression root_gradient(const Backward& at, std::size_t) { return at.grad / (number(2) * at.result); }
Expression negated_gradient(const Backward& at, std::size_t) { return -at.grad; }
Expression sine_gradient(const Backward& at, std::size_t) { return at.grad * call("cos", {at.operands[0]}); }
Expression cosine_gradient(const Backward& at, std::size_t) { return -at.grad * call("sin", {at.operands[0]}); }

Expression tanh_gradient(const Backward& at, std::size_t)
{
    return at.grad * (number(1) - power(at.result, number(2)));
}

Expression sigmoid_gradient(const Backward& at, std::size_t) { return at.grad * at.result * (number(1) - at.result); }

Expression relu_gradient(const Backward& at, std::size_t)
{
    return chosen(compared(at.operands[0], ">", number(0)), at.grad, number(0));
}

Expression abs_gradient(const Backward& at, std::size_t)
{
    const Expression &x = at.operands[0], zero = number(0);
    return chosen(compared(x, ">", zero), at.grad, chosen(compared(x, "<", zero), -at.grad, zero));
}

Expression erf_gradient(const Backward& at, std::size_t)
{
    Expression pi;
    pi.text = "pi";
    pi.number = std::numbers::pi;
    return at.grad * number(2) / call("sqrt", {pi}) * call("exp", {-power(at.operands[0], number(2))});
}

/// Of an operand that was broadcast: a sum over all that it was used for.
Expression for_operand(const Backward& at, std::size_t operand, Expression grad)
{
    return summed_to(at.shape_of(operand), std::move(grad), at.call.shape);
}

Expression addition_gradient(const Backward& at, std::size_t operand) { return for_operand(at, operand, at.grad); }

Expression difference_gradient(const Backward& at, std::size_t operand)
{
    return for_operand(at, operand, operand == 0 ? at.grad : -at.grad);
}

Expression product_gradient(const Backward& at, std::size_t operand)
{
    return for_operand(at, operand, at.grad * at.operands[1 - operand]);
}

Expression quotient_gradient(const Backward& at, std::size_t operand)
{
    const Expression& divisor = at.operands[1];
    return for_operand(at, operand, operand == 0 ? at.grad / divisor : -at.grad * at.result / divisor);
}

/// Of a - b * (a // b), whose quotient stands still but where it jumps.
Expression remainder_gradient(const Backward& at, std::size_t operand)
{
    return for_operand(at, operand, operand == 0 ? at.grad : -at.grad * floored(at.operands[0], at.operands[1]));
}

Expression power_gradient(const Backward& at, std::size_t operand)
{
    const Expression &base = at.operands[0], &exponent = at.operands[1];
    if (operand == 1)
        return for_operand(at, 1, at.grad * at.result * call("log", {base}));
    if (exponent.kind != Kind::number)
        return for_operand(at, 0, at.grad * exponent * power(base, exponent - number(1)));
    const Expression slope = exponent.number == 2 ? base : power(base, number(exponent.number - 1));
    return for_operand(at, 0, at.grad * exponent * slope);
}

Expression outer_gradient(const Backward& at, std::size_t operand)
{
    return operand == 0 ? product(at.grad, at.operands[1]) : product(at.operands[0], at.grad);
}

/// To the one that was taken, to each of equals half.
template <bool is_largest>
Expression extreme_gradient(const Backward& at, std::size_t operand)
{
    const Expression &mine = at.operands[operand], &other = at.operands[1 - operand];
    const Expression of_equals = chosen(compared(mine, "==", other), at.grad / number(2), number(0));
    return for_operand(at, operand, chosen(compared(mine, is_largest ? ">" : "<", other), at.grad, of_equals));
}

/// To the side that was taken; none to the condition.
Expression chosen_gradient(const Backward& at, std::size_t operand)
{
    const Expression &condition = at.operands[0], zero = number(0);
    return for_operand(at, operand, operand == 1 ? chosen(condition, at.grad, zero) : chosen(condition, zero, at.grad));
}

template <bool is_largest>
Function of_extreme(std::string_view name)
{
    return {.name = name,
            .tensors = 2,
            .binary = extreme<is_largest>,
            .shape = shape_arithmetic,
            .numbers = each_two,
            .cell = extreme_cell<is_largest>,
            .gradient = extreme_gradient<is_largest>};
}

// ---------------------------------------------------------------------------------------------------------- of a choice

void shape_where(Shaped& call, const Shaper&)
{
    broadcast_operands(call);
    call.type = common(call.operands[1].type, call.operands[2].type);
}

Cells chosen_numbers(const Shaped& call, const std::vector<Cells>& operands, const Rounding&)
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
         .cell = negated_cell,
         .gradient = negated_gradient},
        of_each(
            "exp", [](Rounded x, R r) { return r.exponential(x); }, exponential_gradient),
        of_each(
            "log", [](Rounded x, R r) { return r.function(std::log(x.value), 1 / x.value, x); }, logarithm_gradient),
        of_each(
            "sqrt", [](Rounded x, R r) { return r.function(std::sqrt(x.value), 0.5 / std::sqrt(x.value), x); },
            root_gradient),
        of_each("tanh", tanh, tanh_gradient),
        of_each("sigmoid", sigmoid, sigmoid_gradient),
        of_each(
            "relu",
            [](Rounded x, R) {
                return x.value < 0 ? Rounded{0, x.error} : x;
            },
            relu_gradient, shape_like),
        of_each(
            "abs",
            [](Rounded x, R) {
                return Rounded{std::abs(x.value), x.error};
            },
            abs_gradient, shape_like),
        of_each(
            "erf",
            [](Rounded x, R r) {
                return r.function(std::erf(x.value), 2 * std::numbers::inv_sqrtpi * std::exp(-x.value * x.value), x);
            },
            erf_gradient),
        of_each(
            "sin", [](Rounded x, R r) { return r.function(std::sin(x.value), 1, x); }, sine_gradient),
        of_each(
            "cos", [](Rounded x, R r) { return r.function(std::cos(x.value), 1, x); }, cosine_gradient),
        of_each(
            "floor",
            [](Rounded x, R) {
                return Rounded{std::floor(x.value), x.is_unknown() ? unknown_error : 0};
            },
            nullptr),
        of_each("round", nearest_whole, nullptr),
        of_type<NumberType::float32>(),
        of_type<NumberType::float16>(),
        of_type<NumberType::bfloat16>(),
        of_type<NumberType::float8_e4m3>(),
        of_type<NumberType::float8_e5m2>(),

        of_two(
            "+", [](Rounded a, Rounded b, R r) { return r.add(a, b); }, shape_arithmetic, addition_gradient),
        of_two(
            "-", [](Rounded a, Rounded b, R r) { return r.subtract(a, b); }, shape_arithmetic, difference_gradient),
        of_two("*", multiply, shape_arithmetic, product_gradient),
        of_two(
            "/", [](Rounded a, Rounded b, R r) { return r.divide(a, b); }, shape_quotient, quotient_gradient),
        of_two("//", floor_divided, shape_arithmetic),
        of_two("%", modulo, shape_arithmetic, remainder_gradient),
        of_two("**", raised, shape_quotient, power_gradient),
        of_two(
            "<", [](Rounded a, Rounded b, R) { return truth(a.value < b.value, a, b); }, shape_comparison),
        of_two(
            "<=", [](Rounded a, Rounded b, R) { return truth(a.value <= b.value, a, b); }, shape_comparison),
        of_two(
            ">", [](Rounded a, Rounded b, R) { return truth(a.value > b.value, a, b); }, shape_comparison),
        of_two(
            ">=", [](Rounded a, Rounded b, R) { return truth(a.value >= b.value, a, b); }, shape_comparison),
        of_two(
            "==", [](Rounded a, Rounded b, R) { return truth(a.value == b.value, a, b); }, shape_comparison),
        of_two(
            "!=", [](Rounded a, Rounded b, R) { return truth(a.value != b.value, a, b); }, shape_comparison),
        of_two(
            "&", [](Rounded a, Rounded b, R) { return truth(a.value != 0 && b.value != 0, a, b); }, shape_logical),
        of_two(
            "|", [](Rounded a, Rounded b, R) { return truth(a.value != 0 || b.value != 0, a, b); }, shape_logical),
        of_extreme<true>("maximum"),
        of_extreme<false>("minimum"),
        {.name = "outer",
         .tensors = 2,
         .binary = multiply,
         .shape = shape_outer,
         .numbers = each_two,
         .cell = product_cell,
         .gradient = outer_gradient},
        {.name = "where",
         .tensors = 3,
         .shape = shape_where,
         .numbers = chosen_numbers,
         .cell = chosen_cell,
         .gradient = chosen_gradient},
    };
    return functions;
}

} // namespace attn::formula
