// What goes along lines of cells: sums, means, extremes, softmax and the matrix product.

#include "function.hpp"

#include <algorithm>
#include <array>

namespace attn {
namespace {

using Kind = Expression::Kind;

double value_of(Rounded number) { return number.value; }
double value_of(const Scalar* number) { return number->value.value; }

/// The cells along one line of an operand, as scalars.
auto line_of(const Shaped& call, std::size_t operand, std::size_t start, Scalars& scalars)
{
    return [&call, operand, start, &scalars](std::size_t i) {
        return &scalars.cell(call.operands[operand], start + i * call.steps[operand]);
    };
}

/// Makes lines of one axis of the operand, or one of all its cells.
void take_lines(Shaped& call, std::optional<std::size_t> axis)
{
    const Shape& shape = call.operands[0].shape;
    call.length = axis ? shape[*axis] : element_count(shape);
    call.steps = {axis ? strides_of(shape)[*axis] : 1};
}

// ---------------------------------------------------------------------------------------------------------- reductions

void reduce(Shaped& call, const Shaper& shaper)
{
    const Shape& shape = call.operands[0].shape;
    const Expression* keep = keyword(*call.expression, "keepdims");
    if (keep != nullptr && keep->text != "True" && keep->text != "False")
        shaper.fail(*keep, "expected True or False");
    const std::optional<std::size_t> axis = shaper.axis_keyword(*call.expression, shape.size());
    take_lines(call, axis);
    Loop loop;
    const Shape strides = strides_of(shape);
    for (std::size_t i = 0; i < shape.size(); ++i) {
        const bool is_reduced = !axis || *axis == i;
        if (is_reduced && (keep == nullptr || keep->text == "False"))
            continue;
        loop.shape.push_back(is_reduced ? 1 : shape[i]);
        loop.from.resize(1);
        loop.from[0].strides.push_back(is_reduced ? 0 : strides[i]);
    }
    loop.from.resize(1);
    loop.to = all_of(loop.shape);
    call.shape = loop.shape;
    call.loops.push_back(std::move(loop));
}

void shape_sum(Shaped& call, const Shaper& shaper)
{
    reduce(call, shaper);
    call.type = common(call.operands[0].type, ElementType::integer);
}

void shape_mean(Shaped& call, const Shaper& shaper) { reduce(call, shaper); }

void shape_extreme(Shaped& call, const Shaper& shaper)
{
    reduce(call, shaper);
    call.type = call.operands[0].type;
}

// What becomes of one line, computed with a Rounding and explained with an Arithmetic.
struct Sum {
    static constexpr bool is_part = true;
    template <class Algebra, class At>
    static auto of(Algebra& a, std::size_t count, const At& at)
    {
        return a.sum(count, at);
    }
};

struct Mean {
    static constexpr bool is_part = true;
    template <class Algebra, class At>
    static auto of(Algebra& a, std::size_t count, const At& at)
    {
        return a.divide(a.sum(count, at), a.number(static_cast<double>(count)));
    }
};

template <bool is_largest>
struct ExtremeOfLine {
    static constexpr bool is_part = false;
    template <class Algebra, class At>
    static auto of(Algebra& a, std::size_t count, const At& at)
    {
        return a.extreme(count, at, is_largest);
    }
};

template <class Reduction>
Cells reduced(const Shaped& call, const std::vector<Cells>& operands, const Rounding& rounding)
{
    Cells result = make_cells(call.shape);
    for_each<1>(call.loops[0], [&](const auto& at) {
        const Rounded* start = operands[0].cells.data() + at[1];
        result.cells[at[0]] =
            Reduction::of(rounding, call.length, [&](std::size_t i) { return start[i * call.steps[0]]; });
    });
    return result;
}

template <class Reduction>
const Scalar& reduced_cell(const Shaped& call, std::size_t offset, Scalars& scalars)
{
    Arithmetic arithmetic(scalars, call, offset);
    const std::size_t start = source(call.loops[0], 0, offset).value();
    const Scalar* whole = Reduction::of(arithmetic, call.length, line_of(call, 0, start, scalars));
    return *(Reduction::is_part ? arithmetic.part(whole, call.length) : whole);
}

template <class Reduction>
Function reduction(std::string_view name, decltype(Function::shape) shape)
{
    return {.name = name,
            .keywords = {"axis", "keepdims"},
            .shape = shape,
            .numbers = reduced<Reduction>,
            .cell = reduced_cell<Reduction>};
}

// ------------------------------------------------------------------------------------------------------------- softmax

void shape_softmax(Shaped& call, const Shaper& shaper)
{
    call.shape = call.operands[0].shape;
    const std::optional<std::size_t> named = shaper.axis_keyword(*call.expression, call.rank());
    if (!named && call.rank() == 0)
        throw Error("softmax wants an axis, not a single number");
    const std::size_t axis = named.value_or(call.rank() - 1);
    take_lines(call, axis);
    Loop lines{call.shape, all_of(call.shape), {all_of(call.shape)}};
    lines.shape[axis] = 1;
    call.loops.push_back(std::move(lines));
}

/// exp(x) over its sum, for every number of a line; zeros where all of it is minus infinity. The largest is subtracted
/// first, which changes nothing but keeps the exponentials small.
template <class Algebra, class At, class Give>
void softmax(Algebra& a, std::size_t length, const At& at, const Give& give)
{
    const auto largest = a.exact(a.extreme(length, at, true));
    const bool is_forbidden = value_of(largest) == extreme_of_none(true);
    std::vector<typename Algebra::Number> exponentials;
    for (std::size_t i = 0; !is_forbidden && i < length; ++i)
        exponentials.push_back(a.exponential(a.subtract(at(i), largest)));
    const auto sum = a.sum(exponentials.size(), [&](std::size_t i) { return exponentials[i]; });
    for (std::size_t i = 0; i < length; ++i)
        give(i, is_forbidden ? a.forbidden(largest) : a.divide(exponentials[i], sum));
}

Cells softmax_numbers(const Shaped& call, const std::vector<Cells>& operands, const Rounding& rounding)
{
    Cells result = make_cells(call.shape);
    const std::size_t step = call.steps[0];
    for_each<1>(call.loops[0], [&](const auto& at) {
        const Rounded* from = operands[0].cells.data() + at[1];
        Rounded* to = result.cells.data() + at[0];
        softmax(
            rounding, call.length, [&](std::size_t i) { return from[i * step]; },
            [&](std::size_t i, Rounded number) { to[i * step] = number; });
    });
    return result;
}

/// Makes all cells of a line, since they share their exponentials.
const Scalar& softmax_cell(const Shaped& call, std::size_t offset, Scalars& scalars)
{
    const std::size_t step = call.steps[0], place = offset / step % call.length, start = offset - place * step;
    Arithmetic arithmetic(scalars, call, offset);
    const Scalar* wanted = nullptr;
    const auto give = [&](std::size_t i, const Scalar* whole) {
        const bool is_sum = whole->kind != Scalar::Kind::noted;
        const Scalar* cell = is_sum ? Arithmetic(scalars, call, start + i * step).part(whole, call.length) : whole;
        scalars.remember(call, start + i * step, *cell);
        if (i == place)
            wanted = cell;
    };
    softmax(arithmetic, call.length, line_of(call, 0, start, scalars), give);
    return *wanted;
}

// -------------------------------------------------------------------------------------------------- the matrix product

/// A formula can come from anywhere: it must not keep a machine busy for hours.
void expect_affordable(const Shaped& product)
{
    constexpr double most = 1e11;
    const double multiplications =
        static_cast<double>(element_count(product.shape)) * static_cast<double>(product.length);
    if (multiplications > most)
        throw Error("@ would take " + std::to_string(multiplications) + " multiplications, more than a formula can");
}

/// As NumPy: a vector is a row on the left and a column on the right, and what stands before the last two axes are stacks
/// of matrices, which broadcast.
void shape_product(Shaped& call, const Shaper&)
{
    const Shape &left = call.operands[0].shape, &right = call.operands[1].shape;
    if (left.empty() || right.empty())
        throw Error("@ wants vectors or matrices, not a single number");
    const bool is_row = left.size() == 1, is_column = right.size() == 1;
    const std::size_t m = is_column ? 1 : right.back();
    call.length = left.back();
    call.steps = {1, m};
    if (call.length != right[right.size() - (is_column ? 1 : 2)])
        throw Error("the shapes " + to_string(left) + " and " + to_string(right) + " don't fit @");
    const Shape left_stack(left.begin(), left.end() - (is_row ? 1 : 2));
    const Shape right_stack(right.begin(), right.end() - (is_column ? 1 : 2));
    const std::size_t left_size = is_row ? 0 : left[left.size() - 2] * call.length, right_size = call.length * m;

    Loop loop;
    loop.shape = broadcast(left_stack, right_stack);
    loop.from = {broadcast_view(left_stack, loop.shape), broadcast_view(right_stack, loop.shape)};
    for (std::size_t axis = 0; axis < loop.shape.size(); ++axis) {
        loop.from[0].strides[axis] *= left_size;
        loop.from[1].strides[axis] *= right_size;
    }
    const auto add_axis = [&](std::size_t size, std::size_t left_stride, std::size_t right_stride) {
        loop.shape.push_back(size);
        loop.from[0].strides.push_back(left_stride);
        loop.from[1].strides.push_back(right_stride);
    };
    if (!is_row)
        add_axis(left[left.size() - 2], call.length, 0);
    if (!is_column)
        add_axis(m, 0, 1);
    loop.to = all_of(loop.shape);
    call.shape = loop.shape;
    call.type = common(common(call.operands[0].type, call.operands[1].type), ElementType::integer);
    call.loops.push_back(std::move(loop));
}

/// Several neighbours at once, which share the numbers of a row while these are at hand.
Cells product_numbers(const Shaped& call, const std::vector<Cells>& operands, const Rounding& rounding)
{
    Cells result = make_cells(call.shape);
    expect_affordable(call);
    Loop lines = call.loops[0];
    std::size_t count = 1, left_step = 0, right_step = 0;
    if (!lines.shape.empty()) {
        count = lines.shape.back();
        left_step = lines.from[0].strides.back();
        right_step = lines.from[1].strides.back();
        lines.shape.back() = 1;
    }
    constexpr std::size_t most = 8;
    const Rounded *left = operands[0].cells.data(), *right = operands[1].cells.data();
    for_each<2>(lines, [&](const auto& at) {
        for (std::size_t first = 0; first < count; first += most) {
            const std::size_t neighbours = std::min(most, count - first);
            std::array<RoundedSum, most> sums;
            for (std::size_t i = 0; i < call.length; ++i) {
                const Rounded* l = left + at[1] + first * left_step + i * call.steps[0];
                const Rounded* r = right + at[2] + first * right_step + i * call.steps[1];
                for (std::size_t j = 0; j < neighbours; ++j)
                    sums[j].add(rounding.multiply(l[j * left_step], r[j * right_step]));
            }
            for (std::size_t j = 0; j < neighbours; ++j)
                result.cells[at[0] + first + j] = sums[j].result(call.length, rounding);
        }
    });
    return result;
}

const Scalar& product_cell(const Shaped& call, std::size_t offset, Scalars& scalars)
{
    Arithmetic a(scalars, call, offset);
    const auto left = line_of(call, 0, source(call.loops[0], 0, offset).value(), scalars);
    const auto right = line_of(call, 1, source(call.loops[0], 1, offset).value(), scalars);
    return *a.part(a.sum(call.length, [&](std::size_t i) { return a.multiply(left(i), right(i)); }), call.length);
}

} // namespace

std::span<const Function> summing_functions()
{
    static const Function functions[] = {
        reduction<Sum>("sum", shape_sum),
        reduction<Mean>("mean", shape_mean),
        reduction<ExtremeOfLine<true>>("max", shape_extreme),
        reduction<ExtremeOfLine<false>>("min", shape_extreme),
        {.name = "softmax",
         .keywords = {"axis"},
         .shape = shape_softmax,
         .numbers = softmax_numbers,
         .cell = softmax_cell},
        {.kind = Kind::binary,
         .name = "@",
         .tensors = 2,
         .shape = shape_product,
         .numbers = product_numbers,
         .cell = product_cell},
    };
    return functions;
}

} // namespace attn
