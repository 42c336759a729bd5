// Functions along lines of cells: sums, means, extremes, softmax, the largest few and the matrix product.

#include "function.hpp"
#include "terms.hpp"

#include "attn/core/vectorised.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

namespace attn::formula {
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

// The results for one line, computed with a Rounding and explained with an Arithmetic.
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
    constexpr double operations_each = 4;
    spend(operations_each * static_cast<double>(result.cells.size()) * static_cast<double>(call.length));
    for_each_in_parts<1>(call.loops[0], call.length, [&](const auto& at) {
        result.cells[at[0]] = Reduction::of(rounding, call.length, [&, first = at[1]](std::size_t i) {
            return operands[0].cells[first + i * call.steps[0]];
        });
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

/// The axis that a reduction or a softmax goes along; nothing where it is over all numbers.
std::optional<std::size_t> axis_of(const Backward& at)
{
    return at.shaper.axis_keyword(*at.call.expression, at.call.operands[0].rank());
}

/// Something of the reduced shape with the reduced axis again, of one entry.
Expression with_axis(const Backward& at, Expression reduced)
{
    const Shape& shape = at.shape_of(0);
    const auto axis = axis_of(at);
    if (at.call.rank() == shape.size())
        return reduced;
    return axis ? terms::widened(std::move(reduced), *axis, shape.size())
                : terms::reshaped(std::move(reduced), Shape(shape.size(), 1));
}

/// Something of the reduced shape for each of the numbers that were reduced.
Expression for_each_number(const Backward& at, const Expression& reduced)
{
    const Shape& shape = at.shape_of(0);
    const auto repeated = [](Expression x, std::size_t count, std::size_t axis, std::size_t rank) {
        Expression result = terms::along("repeat", std::move(x), axis, rank);
        result.operands.push_back(terms::number(static_cast<double>(count)));
        return result;
    };
    if (const auto axis = axis_of(at))
        return repeated(with_axis(at, reduced), shape[*axis], *axis, shape.size());
    const std::size_t count = element_count(shape);
    return terms::reshaped(repeated(terms::reshaped(reduced, {1}), count, 0, 2), shape);
}

Expression sum_gradient(const Backward& at, std::size_t) { return for_each_number(at, at.grad); }

Expression mean_gradient(const Backward& at, std::size_t)
{
    using namespace terms;
    return for_each_number(at, at.grad) / number(static_cast<double>(at.call.length));
}

/// To the numbers that are the extreme, in equal parts, as torch.amax.
Expression extreme_gradient(const Backward& at, std::size_t)
{
    using namespace terms;
    const auto axis = axis_of(at);
    const Expression is_extreme = compared(at.operands[0], "==", with_axis(at, at.result));
    const Expression count =
        axis ? along("sum", is_extreme, *axis, at.shape_of(0).size(), true) : call("sum", {is_extreme});
    return chosen(is_extreme, with_axis(at, at.grad) / count, number(0));
}

template <class Reduction>
Function reduction(std::string_view name, decltype(Function::shape) shape, decltype(Function::gradient) gradient)
{
    return {.name = name,
            .keywords = {"axis", "keepdims"},
            .shape = shape,
            .numbers = reduced<Reduction>,
            .cell = reduced_cell<Reduction>,
            .gradient = gradient};
}

// ------------------------------------------------------------------------------------------------------------- softmax

void shape_softmax(Shaped& call, const Shaper& shaper)
{
    call.shape = call.operands[0].shape;
    const std::optional<std::size_t> named = shaper.axis_keyword(*call.expression, call.rank());
    if (!named && call.rank() == 0)
        throw Error("softmax needs an axis, not a single number");
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
    const auto largest = a.subtracted(a.extreme(length, at, true), length);
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
    if (result.cells.empty()) // there can be any number of lines of nothing
        return result;
    constexpr std::size_t operations_each = 24;
    spend(static_cast<double>(operations_each * result.cells.size()));
    const std::size_t step = call.steps[0];
    for_each_in_parts<1>(call.loops[0], operations_each * call.length, [&](const auto& at) {
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

/// Softmax's Jacobian is diag(y) - y y^T; where all of a row is forbidden, y is zero, and so is this.
Expression softmax_gradient(const Backward& at, std::size_t)
{
    using namespace terms;
    const std::size_t rank = at.call.rank();
    return at.result * (at.grad - along("sum", at.grad * at.result, axis_of(at).value_or(rank - 1), rank, true));
}

// ----------------------------------------------------------------------------------------------------- the largest few

void shape_top_k(Shaped& call, const Shaper& shaper)
{
    shape_softmax(call, shaper);
    call.type = ElementType::boolean;
    const std::size_t count = shaper.count(call.expression->operands[1]);
    if (count < 1 || count > call.length)
        throw Error("top_k: found ", count, " of ", call.length,
                    " numbers, expected at least one and no more than there are");
    call.number = static_cast<double>(count);
}

/// The places of the largest numbers of a line, the largest first; of equals the earlier, and NaN is larger than all.
template <class At>
std::vector<std::size_t> largest_of(const Shaped& call, const At& at)
{
    std::vector<std::size_t> places(call.length);
    for (std::size_t i = 0; i < places.size(); ++i)
        places[i] = i;
    std::ranges::stable_sort(places, [&](std::size_t a, std::size_t b) {
        const double left = value_of(at(a)), right = value_of(at(b));
        return std::isnan(left) ? !std::isnan(right) : left > right;
    });
    places.resize(static_cast<std::size_t>(call.number));
    return places;
}

Cells top_k_numbers(const Shaped& call, const std::vector<Cells>& operands, const Rounding&)
{
    Cells result = make_cells(call.shape);
    constexpr double operations_each = 24;
    spend(operations_each * static_cast<double>(result.cells.size()));
    const std::size_t step = call.steps[0];
    for_each<1>(call.loops[0], [&](const auto& at) {
        const auto from = [&](std::size_t i) { return operands[0].cells[at[1] + i * step]; };
        bool is_unknown = false; // which are the largest, where one has overflowed
        for (std::size_t i = 0; i < call.length; ++i)
            is_unknown = is_unknown || from(i).is_unknown();
        for (std::size_t i = 0; i < call.length; ++i)
            result.cells[at[0] + i * step] = {0, is_unknown ? unknown_error : 0};
        for (const std::size_t place : largest_of(call, from))
            result.cells[at[0] + place * step].value = 1;
    });
    return result;
}

/// A comparison with the last of the largest.
const Scalar& top_k_cell(const Shaped& call, std::size_t offset, Scalars& scalars)
{
    const std::size_t step = call.steps[0], place = offset / step % call.length;
    const auto at = line_of(call, 0, offset - place * step, scalars);
    const std::vector<std::size_t> largest = largest_of(call, at);
    const bool is_among = std::ranges::find(largest, place) != largest.end();
    Arithmetic a(scalars, call, offset);
    const Scalar* least = at(largest.back());
    return *a.binary(is_among ? ">=" : ">", {is_among ? 1.0 : 0.0, 0}, at(place),
                     a.noted(Scalar::Note::largest, least, least, call.length, largest.size()));
}

// -------------------------------------------------------------------------------------------------- the matrix product

/// As NumPy: a vector is a row on the left and a column on the right, and what stands before the last two axes are stacks
/// of matrices, which broadcast.
void shape_product(Shaped& call, const Shaper&)
{
    const Shape &left = call.operands[0].shape, &right = call.operands[1].shape;
    if (left.empty() || right.empty())
        throw Error("@ needs vectors or matrices, not a single number");
    const bool is_row = left.size() == 1, is_column = right.size() == 1;
    const std::size_t m = is_column ? 1 : right.back();
    call.length = left.back();
    call.steps = {1, m};
    if (call.length != right[right.size() - (is_column ? 1 : 2)])
        throw Error("the shapes ", left, " and ", right, " don't fit @");
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
template <class Sum>
Cells products(const Shaped& call, const Cells& left_cells, const Cells& right_cells, const Rounding& rounding)
{
    Cells result = make_cells(call.shape);
    if (result.cells.empty()) // there can be any number of rows without columns
        return result;
    spend(static_cast<double>(result.cells.size()) * static_cast<double>(call.length));
    Loop lines = call.loops[0];
    std::size_t count = 1, left_step = 0, right_step = 0;
    if (!lines.shape.empty()) {
        count = lines.shape.back();
        left_step = lines.from[0].strides.back();
        right_step = lines.from[1].strides.back();
        lines.shape.back() = 1;
    }
    constexpr std::size_t most = 8;
    const Rounding inside = rounding.inside_sums();
    const Rounded *left = left_cells.cells.data(), *right = right_cells.cells.data();
    for_each<2>(lines, [&](const auto& at) {
        for (std::size_t first = 0; first < count; first += most) {
            const std::size_t neighbours = std::min(most, count - first);
            std::array<Sum, most> sums;
            for (std::size_t i = 0; i < call.length; ++i) {
                const Rounded* l = left + at[1] + first * left_step + i * call.steps[0];
                const Rounded* r = right + at[2] + first * right_step + i * call.steps[1];
                for (std::size_t j = 0; j < neighbours; ++j)
                    sums[j].add(inside.multiply(l[j * left_step], r[j * right_step]));
            }
            for (std::size_t j = 0; j < neighbours; ++j)
                result.cells[at[0] + first + j] =
                    with_overflow(sums[j].result(call.length, rounding), call.length, [&](std::size_t i) {
                        return inside.multiply(left[at[1] + (first + j) * left_step + i * call.steps[0]],
                                               right[at[2] + (first + j) * right_step + i * call.steps[1]]);
                    });
        }
    });
    return result;
}

/// The numbers of neighbouring columns, which the processor takes at once.
constexpr std::size_t lanes = 4;
using Lanes [[gnu::vector_size(lanes * sizeof(double))]] = double;

/// The sums of a tile, whose numbers stay in registers; in the same order as one by one. The other two are what the errors of
/// such a sum follow from.
template <std::size_t rows>
struct Tile {
    Lanes totals[rows] = {}, of_sums[rows] = {}, of_terms[rows] = {};
};

/// @param left, right  of each place the numbers of so many rows, and of all columns
template <SumErrors errors, std::size_t rows>
ATTN_VECTORISED void add_products(Tile<rows>& sums, const double* left, const double* right, std::size_t length,
                                  double unit, double smallest)
{
    Tile<rows> so_far = sums;
    for (std::size_t k = 0; k < length; ++k, left += lanes, right += lanes) {
        Lanes column;
        std::memcpy(&column, right, sizeof column);
        for (std::size_t i = 0; i < rows; ++i) {
            const Lanes term = left[i] * column;
            so_far.totals[i] += term;
            if constexpr (errors == SumErrors::none)
                continue;
            const Lanes size = term < 0.0 ? -term : term, error = unit * size + smallest;
            so_far.of_sums[i] += errors == SumErrors::typical ? so_far.totals[i] * so_far.totals[i] : size;
            so_far.of_terms[i] += errors == SumErrors::typical ? error * error : error;
        }
    }
    sums = so_far;
}

/// The array of a name, or of a matrix that is a name's, transposed: in a model the weights are.
const Array* array_of(const Shaped& operand)
{
    const bool is_transposed = operand.expression->kind == Kind::transposed && operand.rank() == 2;
    return is_transposed ? operand.operands[0].array : operand.array;
}

/// Products of matrices whose numbers have no error, as those that are recorded: what products() gives, several times as fast.
template <SumErrors errors>
Cells products_of_exact(const Shaped& call, const std::vector<Cells>& operands, const Rounding& rounding)
{
    using ErrorOfSum = std::conditional_t<errors == SumErrors::typical, TypicalErrorOfSum, LargestErrorOfSum>;
    constexpr std::size_t tile = lanes, rows_at_once = errors == SumErrors::none ? tile : 2;
    constexpr double multiplications_per_operation = errors == SumErrors::none ? 4 : 2;
    Cells result = make_cells(call.shape);
    spend(static_cast<double>(result.cells.size() * call.length) / multiplications_per_operation);
    Loop stacks = call.loops[0];
    const std::size_t rank = stacks.shape.size(), length = call.length;
    const std::size_t n = std::exchange(stacks.shape[rank - 2], 1), m = std::exchange(stacks.shape[rank - 1], 1);
    const std::size_t rows = (n + tile - 1) / tile * tile, columns = (m + tile - 1) / tile * tile;
    const Rounding inside = rounding.inside_sums();
    const auto number = [&](std::size_t operand, std::size_t first, std::size_t row, std::size_t column,
                            std::size_t width) {
        const Shaped& of = call.operands[operand];
        const Array* array = array_of(of);
        if (array == nullptr)
            return operands[operand].cells[first + row * width + column].value;
        return array->values[of.array != nullptr ? first + row * width + column : column * of.shape[0] + row];
    };
    std::vector<double> left(rows * length), right(columns * length); // by tiles, with zeros at the ends
    for_each<2>(stacks, [&](const auto& at) {
        for (std::size_t i = 0; i < n; ++i)
            for (std::size_t k = 0; k < length; ++k)
                left[(i / tile * length + k) * tile + i % tile] = number(0, at[1], i, k, length);
        for (std::size_t k = 0; k < length; ++k)
            for (std::size_t j = 0; j < m; ++j)
                right[(j / tile * length + k) * tile + j % tile] = number(1, at[2], k, j, m);
        const auto multiply = [&](std::size_t row) {
            for (std::size_t column = 0; column < m; column += tile) {
                Tile<rows_at_once> sums;
                add_products<errors>(sums, &left[row / tile * tile * length + row % tile], &right[column * length],
                                     length, inside.unit(), inside.smallest());
                for (std::size_t i = 0; i < std::min(rows_at_once, n - row); ++i)
                    for (std::size_t j = 0; j < std::min(tile, m - column); ++j)
                        result.cells[at[0] + (row + i) * m + column + j] =
                            errors == SumErrors::none
                                ? Rounded{sums.totals[i][j], 0}
                                : ErrorOfSum(sums.totals[i][j], sums.of_sums[i][j], sums.of_terms[i][j])
                                      .result(length, rounding);
            }
        };
        in_parts((n + rows_at_once - 1) / rows_at_once, static_cast<double>(n * m) * static_cast<double>(length),
                 [&](std::size_t begin, std::size_t end) {
                     for (std::size_t i = begin; i < end; ++i)
                         multiply(i * rows_at_once);
                 });
    });
    return result;
}

/// The products, and the errors where a sum is not to have another: of exact numbers that don't overflow, several times as fast.
template <class ErrorOfSum, SumErrors errors>
Cells products_with_errors(const Shaped& call, const std::vector<Cells>& operands, const Rounding& rounding,
                           bool can_be_tiled)
{
    const auto is_finite = [](Rounded x) { return std::isfinite(x.value); };
    if (can_be_tiled)
        if (Cells result = products_of_exact<errors>(call, operands, rounding);
            std::ranges::all_of(result.cells, is_finite))
            return result;
    std::array<Cells, 2> made;
    const auto cells_of = [&](std::size_t i) -> const Cells& {
        const Shaped& of = call.operands[i];
        const Array* array = array_of(of);
        if (array == nullptr)
            return operands[i];
        std::vector<Cells> cells(1);
        cells.front() = exact_cells(*array);
        return made[i] = of.array != nullptr ? std::move(cells.front()) : of.function->numbers(of, cells, rounding);
    };
    return products<ErrorOfSum>(call, cells_of(0), cells_of(1), rounding);
}

Cells product_numbers(const Shaped& call, const std::vector<Cells>& operands, const Rounding& rounding)
{
    const auto are_matrices = [](const Cells& of) { return of.shape.size() > 1 && element_count(of.shape) > 0; };
    const auto are_exact = [](const Cells& of) { // those of a name have not been made
        return std::ranges::all_of(of.cells, [](Rounded x) { return x.error == 0; });
    };
    const bool can_be_tiled = std::ranges::all_of(operands, are_matrices);
    const SumErrors errors = rounding.sums();
    if (can_be_tiled && errors == SumErrors::none)
        return products_of_exact<SumErrors::none>(call, operands, rounding);
    const bool is_exact = can_be_tiled && std::ranges::all_of(operands, are_exact);
    return errors == SumErrors::largest
               ? products_with_errors<LargestErrorOfSum, SumErrors::largest>(call, operands, rounding, is_exact)
               : products_with_errors<TypicalErrorOfSum, SumErrors::typical>(call, operands, rounding, is_exact);
}

const Scalar& matrix_product_cell(const Shaped& call, std::size_t offset, Scalars& scalars)
{
    Arithmetic a(scalars, call, offset);
    const auto left = line_of(call, 0, source(call.loops[0], 0, offset).value(), scalars);
    const auto right = line_of(call, 1, source(call.loops[0], 1, offset).value(), scalars);
    return *a.part(a.sum(call.length, [&](std::size_t i) { return a.multiply(left(i), right(i)); }), call.length);
}

/// Of matrices and stacks of them: grad @ b.T and a.T @ grad, summed over the stacks that share an operand.
Expression matrix_gradient(const Backward& at, std::size_t operand)
{
    using namespace terms;
    const Expression &a = at.operands[0], &b = at.operands[1];
    const Shape &left = at.shape_of(0), &right = at.shape_of(1), &result = at.call.shape;
    if (operand == 1 && right.size() == 2 && left.size() > 2) { // all rows of all stacks at once
        const std::size_t rows = element_count(left) / std::max<std::size_t>(left.back(), 1);
        return product(transposed(reshaped(a, {rows, left.back()})), reshaped(at.grad, {rows, right.back()}));
    }
    Shape full(result.begin(), result.end() - 2); // before it is summed
    const Shape& wanted = operand == 0 ? left : right;
    full.insert(full.end(), wanted.end() - 2, wanted.end());
    return summed_to(wanted, operand == 0 ? product(at.grad, transposed(b)) : product(transposed(a), at.grad), full);
}

/// Where one side is a vector, as a matrix of one row or one column.
Expression matrix_product_gradient(const Backward& at, std::size_t operand)
{
    using namespace terms;
    const Expression &a = at.operands[0], &b = at.operands[1];
    const Shape &left = at.shape_of(0), &right = at.shape_of(1);
    if (left.size() > 1 && right.size() > 1)
        return matrix_gradient(at, operand);
    if (left.size() == 1 && right.size() == 1)
        return at.grad * (operand == 0 ? b : a);
    const std::size_t rank = std::max(left.size(), right.size());
    if (right.size() == 1) { // (…, n, k) @ (k): the gradient is (…, n)
        const Expression column = widened(at.grad, rank - 1, rank);
        return operand == 0 ? column * b : summed_to(right, column * a, left);
    }
    const Expression row = widened(at.grad, rank - 2, rank); // (k) @ (…, k, m): the gradient is (…, m)
    if (operand == 1)
        return widened(a, 1, 2) * row;
    Shape stack(right.begin(), right.end() - 1); // (…, k)
    return summed_to(left, along("sum", row * b, rank - 1, rank), stack);
}

// ------------------------------------------------------------------------------------------------ rows that are added

/// Rows of zeros, to each of which those rows are added that have its number.
void shape_scattered(Shaped& call, const Shaper& shaper)
{
    const Shape &rows = call.operands[0].shape, &ids = call.operands[1].shape;
    if (rows.size() < ids.size() || !std::equal(ids.begin(), ids.end(), rows.begin()))
        throw Error("scatter_add wants a row for each id: the shapes are ", rows, " and ", ids);
    call.shape.assign(rows.begin() + static_cast<std::ptrdiff_t>(ids.size()), rows.end());
    call.length = element_count(call.shape); // of a row
    call.shape.insert(call.shape.begin(), shaper.count(call.expression->operands[2]));
    call.type = common(call.operands[0].type, ElementType::integer);
}

std::size_t row_of(const Shaped& call, double id)
{
    if (!(id >= 0 && id < static_cast<double>(call.shape[0])) || id != std::trunc(id))
        throw Error("scatter_add: there is no row ", exact_text(id), " of ", call.shape[0]);
    return static_cast<std::size_t>(id);
}

Cells scattered(const Shaped& call, const std::vector<Cells>& operands, const Rounding& rounding)
{
    Cells result = make_cells(call.shape);
    std::vector<std::vector<std::size_t>> added(call.shape[0]);
    for (std::size_t i = 0; i < operands[1].cells.size(); ++i)
        added[row_of(call, operands[1].cells[i].value)].push_back(i);
    for (std::size_t row = 0; row < added.size(); ++row)
        for (std::size_t place = 0; place < call.length; ++place)
            result.cells[row * call.length + place] = rounding.sum(added[row].size(), [&](std::size_t i) {
                return operands[0].cells[added[row][i] * call.length + place];
            });
    return result;
}

const Scalar& scattered_cell(const Shaped& call, std::size_t offset, Scalars& scalars)
{
    const std::size_t row = offset / call.length, place = offset % call.length;
    std::vector<const Scalar*> added;
    for (std::size_t i = 0; i < element_count(call.operands[1].shape); ++i)
        if (row_of(call, scalars.cell(call.operands[1], i).value.value) == row)
            added.push_back(&scalars.cell(call.operands[0], i * call.length + place));
    Arithmetic a(scalars, call, offset);
    if (added.empty())
        return *a.noted(Scalar::Note::nothing_there, a.number(0), nullptr);
    return *a.part(a.sum(added.size(), [&](std::size_t i) { return added[i]; }), added.size());
}

Expression scattered_gradient(const Backward& at, std::size_t)
{
    Expression rows;
    rows.kind = Kind::indexed;
    rows.operands.push_back(at.grad);
    rows.subscripts.push_back({Subscript::Kind::index, at.operands[1], {}, {}, {}});
    return rows;
}

} // namespace

std::span<const Function> summing_functions()
{
    static const Function functions[] = {
        reduction<Sum>("sum", shape_sum, sum_gradient),
        reduction<Mean>("mean", shape_mean, mean_gradient),
        reduction<ExtremeOfLine<true>>("max", shape_extreme, extreme_gradient),
        reduction<ExtremeOfLine<false>>("min", shape_extreme, extreme_gradient),
        {.name = "softmax",
         .keywords = {"axis"},
         .shape = shape_softmax,
         .numbers = softmax_numbers,
         .cell = softmax_cell,
         .gradient = softmax_gradient},
        {.name = "top_k",
         .numbers_after = 1,
         .keywords = {"axis"},
         .shape = shape_top_k,
         .numbers = top_k_numbers,
         .cell = top_k_cell},
        {.kind = Kind::binary,
         .name = "@",
         .tensors = 2,
         .shape = shape_product,
         .reads = [](const Shaped& operand) { return array_of(operand) != nullptr; },
         .numbers = product_numbers,
         .cell = matrix_product_cell,
         .gradient = matrix_product_gradient},
        {.name = "scatter_add",
         .tensors = 2,
         .numbers_after = 1,
         .shape = shape_scattered,
         .numbers = scattered,
         .cell = scattered_cell,
         .gradient = scattered_gradient,
         .has_ids = true},
    };
    return functions;
}

} // namespace attn::formula
