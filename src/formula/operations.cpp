#include "operations.hpp"

#include "attn/error.hpp"

#include <algorithm>
#include <limits>
#include <numbers>

namespace attn {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

Rounded truth(bool is_so) { return {is_so ? 1.0 : 0.0, 0}; }

Rounded power(Rounded base, Rounded exponent, const Rounding& rounding)
{
    const double value = std::pow(base.value, exponent.value);
    const double by_base =
        base.error == 0 ? 0 : std::abs(exponent.value * std::pow(base.value, exponent.value - 1)) * base.error;
    const double by_exponent =
        exponent.error == 0 ? 0 : std::abs(value * std::log(std::abs(base.value))) * exponent.error;
    return rounding.result(value, by_base + by_exponent, 4);
}

using Binary = Rounded (*)(Rounded, Rounded, const Rounding&);

Binary binary_of(std::string_view op)
{
    if (op == "+")
        return [](Rounded a, Rounded b, const Rounding& r) { return r.add(a, b); };
    if (op == "-")
        return [](Rounded a, Rounded b, const Rounding& r) { return r.subtract(a, b); };
    if (op == "*")
        return [](Rounded a, Rounded b, const Rounding& r) { return r.multiply(a, b); };
    if (op == "/")
        return [](Rounded a, Rounded b, const Rounding& r) { return r.divide(a, b); };
    if (op == "**")
        return power;
    if (op == "<")
        return [](Rounded a, Rounded b, const Rounding&) { return truth(a.value < b.value); };
    if (op == "<=")
        return [](Rounded a, Rounded b, const Rounding&) { return truth(a.value <= b.value); };
    if (op == ">")
        return [](Rounded a, Rounded b, const Rounding&) { return truth(a.value > b.value); };
    if (op == ">=")
        return [](Rounded a, Rounded b, const Rounding&) { return truth(a.value >= b.value); };
    if (op == "==")
        return [](Rounded a, Rounded b, const Rounding&) { return truth(a.value == b.value); };
    return [](Rounded a, Rounded b, const Rounding&) { return truth(a.value != 0 && b.value != 0); };
}

/// The part of the shape in front of its last axes.
Shape leading(const Shape& shape, std::size_t last)
{
    return Shape(shape.begin(), shape.end() - static_cast<std::ptrdiff_t>(last));
}

Shape joined(Shape front, std::initializer_list<std::size_t> back)
{
    front.insert(front.end(), back);
    return front;
}

/// A formula may come from anywhere: it may not keep a machine busy for hours.
void expect_affordable(const Cells& product, std::size_t terms)
{
    constexpr double most = 1e11;
    const double multiplications = static_cast<double>(product.cells.size()) * static_cast<double>(terms);
    if (multiplications > most)
        throw Error("@ would take " + std::to_string(multiplications) + " multiplications, more than a formula may");
}

} // namespace

Cells elementwise(std::string_view op, const Cells& left, const Cells& right, const Rounding& rounding)
{
    if (op == "&" && !(left.truth && right.truth))
        throw Error("& wants what is true or false on both sides, such as (a < b) & (c < d)");
    const Binary binary = binary_of(op);
    Cells result = make_cells(broadcast(left.shape, right.shape));
    result.truth = op == "<" || op == "<=" || op == ">" || op == ">=" || op == "==" || op == "&";
    for_each_index(result.shape, broadcast_strides(left.shape, result.shape),
                   broadcast_strides(right.shape, result.shape), [&](std::size_t at, std::size_t l, std::size_t r) {
                       result.cells[at] = binary(left.cells[l], right.cells[r], rounding);
                   });
    return result;
}

Cells matmul(const Cells& left, const Cells& right, const Rounding& rounding)
{
    if (left.rank() == 0 || right.rank() == 0)
        throw Error("@ wants vectors or matrices, not a single number");
    if (left.rank() == 1 || right.rank() == 1) {
        // A vector is a matrix of one row on the left, of one column on the right; that axis goes again.
        Cells l = left, r = right;
        if (left.rank() == 1)
            l.shape = {1, left.shape[0]};
        if (right.rank() == 1)
            r.shape = {right.shape[0], 1};
        Cells product = matmul(l, r, rounding);
        if (right.rank() == 1)
            product.shape.pop_back();
        if (left.rank() == 1)
            product.shape.erase(product.shape.end() - (right.rank() == 1 ? 1 : 2));
        return product;
    }

    const std::size_t n = left.shape[left.rank() - 2], k = left.shape.back(), m = right.shape.back();
    if (right.shape[right.rank() - 2] != k)
        throw Error("the shapes " + to_string(left.shape) + " and " + to_string(right.shape) + " don't fit @");
    const Shape stack = broadcast(leading(left.shape, 2), leading(right.shape, 2));
    Cells product = make_cells(joined(stack, {n, m}));
    expect_affordable(product, k);
    const auto multiply = [&](std::size_t slice, std::size_t left_slice, std::size_t right_slice) {
        const Rounded* l = left.cells.data() + left_slice * n * k;
        const Rounded* r = right.cells.data() + right_slice * k * m;
        for (std::size_t i = 0; i < n; ++i)
            for (std::size_t j = 0; j < m; ++j) {
                RoundedSum sum(rounding);
                for (std::size_t inner = 0; inner < k; ++inner)
                    sum.add_product(l[i * k + inner], r[inner * m + j]);
                product.cells[(slice * n + i) * m + j] = sum.result();
            }
    };
    for_each_index(stack, broadcast_strides(leading(left.shape, 2), stack),
                   broadcast_strides(leading(right.shape, 2), stack), multiply);
    return product;
}

namespace {

using Function = Rounded (*)(Rounded, const Rounding&);

struct NamedFunction {
    std::string_view name;
    Function function;
};

Rounded sigmoid(Rounded x, const Rounding& r)
{
    const double decay = std::exp(-std::abs(x.value));
    const double value = (x.value >= 0 ? 1 : decay) / (1 + decay);
    return r.function(value, value * (1 - value), x);
}

/// Each function with its slope, which passes on the error of its argument.
constexpr NamedFunction functions[] = {
    {"exp", [](Rounded x, const Rounding& r) { return r.function(std::exp(x.value), std::exp(x.value), x); }},
    {"log", [](Rounded x, const Rounding& r) { return r.function(std::log(x.value), 1 / x.value, x); }},
    {"sqrt", [](Rounded x, const Rounding& r) { return r.function(std::sqrt(x.value), 0.5 / std::sqrt(x.value), x); }},
    {"tanh",
     [](Rounded x, const Rounding& r) {
         const double value = std::tanh(x.value);
         return r.function(value, 1 - value * value, x);
     }},
    {"sigmoid", sigmoid},
    {"relu",
     [](Rounded x, const Rounding&) {
         return x.value < 0 ? Rounded{0, x.error} : x;
     }},
    {"abs",
     [](Rounded x, const Rounding&) {
         return Rounded{std::abs(x.value), x.error};
     }},
    {"erf",
     [](Rounded x, const Rounding& r) {
         return r.function(std::erf(x.value), 2 * std::numbers::inv_sqrtpi * std::exp(-x.value * x.value), x);
     }},
    {"sin", [](Rounded x, const Rounding& r) { return r.function(std::sin(x.value), 1, x); }},
    {"cos", [](Rounded x, const Rounding& r) { return r.function(std::cos(x.value), 1, x); }},
    {"floor",
     [](Rounded x, const Rounding&) {
         return Rounded{std::floor(x.value), 0};
     }},
};

/// NaN counts as largest and smallest, as NumPy has it.
Rounded extreme(Rounded best, Rounded next, bool largest)
{
    if (std::isnan(best.value) || std::isnan(next.value))
        return std::isnan(best.value) ? best : next;
    Rounded chosen = (largest ? next.value > best.value : next.value < best.value) ? next : best;
    chosen.error = std::max(best.error, next.error);
    return chosen;
}

/// Reduces the numbers of one line.
template <class At>
Rounded reduce_line(std::string_view function, std::size_t length, const At& at, const Rounding& rounding)
{
    if (function == "sum" || function == "mean") {
        RoundedSum sum(rounding);
        for (std::size_t i = 0; i < length; ++i)
            sum.add(at(i));
        const Rounded total = sum.result();
        return function == "sum" ? total : rounding.divide(total, {static_cast<double>(length), 0});
    }
    const bool largest = function == "max";
    Rounded best{largest ? -infinity : infinity, 0};
    for (std::size_t i = 0; i < length; ++i)
        best = extreme(best, at(i), largest);
    return best;
}

} // namespace

std::optional<Cells> elementary(std::string_view name, const Cells& x, const Rounding& rounding)
{
    const auto found = std::ranges::find(functions, name, &NamedFunction::name);
    if (found == std::end(functions))
        return std::nullopt;
    Cells result = make_cells(x.shape);
    std::ranges::transform(x.cells, result.cells.begin(),
                           [&](Rounded cell) { return found->function(cell, rounding); });
    return result;
}

Cells reduced(std::string_view function, const Cells& x, std::optional<std::size_t> axis, bool keep,
              const Rounding& rounding)
{
    if (!axis) {
        Cells result = make_cells(keep ? Shape(x.rank(), 1) : Shape{});
        result.cells[0] = reduce_line(
            function, x.cells.size(), [&](std::size_t i) { return x.cells[i]; }, rounding);
        return result;
    }
    Shape shape = x.shape;
    if (keep)
        shape[*axis] = 1;
    else
        shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(*axis));
    Cells result = make_cells(shape);
    const AxisLoops loops(x.shape, *axis);
    for (std::size_t before = 0; before < loops.outer; ++before)
        for (std::size_t after = 0; after < loops.inner; ++after)
            result.cells[before * loops.inner + after] = reduce_line(
                function, loops.length, [&](std::size_t i) { return x.cells[loops.at(before, i, after)]; }, rounding);
    return result;
}

Cells softmax(const Cells& x, std::size_t axis, const Rounding& rounding)
{
    Cells result = make_cells(x.shape);
    const AxisLoops loops(x.shape, axis);
    for (std::size_t before = 0; before < loops.outer; ++before)
        for (std::size_t after = 0; after < loops.inner; ++after) {
            const auto at = [&](std::size_t i) { return loops.at(before, i, after); };
            Rounded largest{-infinity, 0};
            for (std::size_t i = 0; i < loops.length; ++i)
                largest = extreme(largest, x.cells[at(i)], true);
            if (largest.value == -infinity)
                continue;      // may attend to nothing: zeros
            largest.error = 0; // whoever subtracts another number subtracts it everywhere

            RoundedSum sum(rounding);
            for (std::size_t i = 0; i < loops.length; ++i) {
                const Rounded difference = rounding.subtract(x.cells[at(i)], largest);
                const double exponential = std::exp(difference.value);
                result.cells[at(i)] = rounding.function(exponential, exponential, difference);
                sum.add(result.cells[at(i)]);
            }
            for (std::size_t i = 0; i < loops.length; ++i)
                result.cells[at(i)] = rounding.divide(result.cells[at(i)], sum.result());
        }
    return result;
}

Cells outer(const Cells& left, const Cells& right, const Rounding& rounding)
{
    if (left.rank() != 1 || right.rank() != 1)
        throw Error("outer wants two vectors");
    Cells column = left;
    column.shape = {left.shape[0], 1};
    return elementwise("*", column, right, rounding);
}

} // namespace attn
