// Functions that only move numbers. A shape rule says by loops which cell of the result comes from
// which cell of an operand; all numbers, and the arithmetic of one, follow from that.

#include "function.hpp"
#include "terms.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace attn::formula {
namespace {

using Kind = Expression::Kind;

Cells moved(const Shaped& call, const std::vector<Cells>& operands, const Rounding&)
{
    Cells result = make_cells(call.shape);
    for (const Loop& loop : call.loops) {
        const std::vector<Rounded>& from = operands[loop.first_operand].cells;
        for_each<1>(loop, [&](const auto& at) { result.cells[at[0]] = from[at[1]]; });
    }
    return result;
}

/// The one operand's cell that a cell comes from; where it comes from none, it is 0: off a diagonal, or in padding.
const Scalar& moved_cell(const Shaped& call, std::size_t offset, Scalars& scalars)
{
    for (const Loop& loop : call.loops)
        if (const std::optional<std::size_t> from = source(loop, 0, offset))
            return scalars.cell(call.operands[loop.first_operand], *from);
    Arithmetic arithmetic(scalars, call, offset);
    return *arithmetic.noted(Scalar::Note::nothing_there, arithmetic.number(0), nullptr);
}

/// Completes the entry of a function whose shape rule says it all.
Function moves(Function entry)
{
    entry.numbers = moved;
    entry.cell = moved_cell;
    return entry;
}

/// A loop that makes cells of the result from those of one operand.
void add_loop(Shaped& call, Shape shape, CellView to, CellView from, std::size_t operand = 0)
{
    Loop loop;
    loop.shape = std::move(shape);
    loop.to = std::move(to);
    loop.from.push_back(std::move(from));
    loop.first_operand = operand;
    call.loops.push_back(std::move(loop));
}

ElementType common_type(const std::vector<Shaped>& operands)
{
    ElementType type = operands.front().type;
    for (const Shaped& operand : operands)
        type = common(type, operand.type);
    return type;
}

// ------------------------------------------------------------------------------------------------- the order of axes

/// Axis i of the result is axis order[i] of the operand.
void reorder(Shaped& call, const std::vector<std::size_t>& order)
{
    const Shape& shape = call.operands[0].shape;
    const Shape strides = strides_of(shape);
    CellView from;
    for (const std::size_t axis : order) {
        call.shape.push_back(shape[axis]);
        from.strides.push_back(strides[axis]);
    }
    call.type = call.operands[0].type;
    add_loop(call, call.shape, all_of(call.shape), from);
}

/// The last two axes swapped; a vector or a number as it is.
void shape_transposed(Shaped& call, const Shaper&)
{
    const std::size_t rank = call.operands[0].rank();
    std::vector<std::size_t> order(rank);
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (rank > 1)
        std::swap(order[rank - 1], order[rank - 2]);
    reorder(call, order);
}

void shape_permute(Shaped& call, const Shaper& shaper)
{
    const std::size_t rank = call.operands[0].rank();
    if (call.expression->operands.size() == 1)
        throw Error("permute wants the order of the axes, such as permute(x, 1, 0)");
    std::vector<std::size_t> order;
    for (std::size_t i = 1; i < call.expression->operands.size(); ++i)
        order.push_back(shaper.axis(call.expression->operands[i], rank));
    for (std::size_t axis = 0; axis < rank; ++axis)
        if (order.size() != rank || std::ranges::find(order, axis) == order.end())
            throw Error("permute needs each of the ", rank, " axes once");
    reorder(call, order);
}

void shape_reshape(Shaped& call, const Shaper& shaper)
{
    const Shape& shape = call.operands[0].shape;
    const std::size_t count = element_count(shape);
    std::optional<std::size_t> open; // the axis that is written as -1, and gets what the others leave
    for (std::size_t i = 1; i < call.expression->operands.size(); ++i) {
        const Expression& size = call.expression->operands[i];
        const bool is_open = !open && shaper.whole(size) == -1;
        if (is_open)
            open = i - 1;
        call.shape.push_back(is_open ? 1 : shaper.count(size));
    }
    if (const std::size_t others = element_count(call.shape); open && others > 0 && count % others == 0)
        call.shape[*open] = count / others;
    if (element_count(call.shape) != count)
        throw Error("reshape: ", shape, " doesn't have as many numbers as ", call.shape);
    call.type = call.operands[0].type;
    add_loop(call, {count}, {0, {1}}, {0, {1}});
}

Expression transposed_gradient(const Backward& at, std::size_t) { return terms::transposed(at.grad); }

Expression permute_gradient(const Backward& at, std::size_t)
{
    const std::size_t rank = at.call.rank();
    std::vector<Expression> operands(rank + 1);
    operands[0] = at.grad;
    for (std::size_t i = 0; i < rank; ++i) // axis i came from this one, and goes back there
        operands[1 + at.shaper.axis(at.call.expression->operands[i + 1], rank)] = terms::number(static_cast<double>(i));
    return terms::call("permute", std::move(operands));
}

Expression reshape_gradient(const Backward& at, std::size_t) { return terms::reshaped(at.grad, at.shape_of(0)); }

// ------------------------------------------------------------------------------------------------ several into one

void shape_concat(Shaped& call, const Shaper& shaper)
{
    call.shape = call.operands[0].shape;
    call.type = common_type(call.operands);
    const std::size_t axis = shaper.needed_axis(*call.expression, call.rank());
    call.shape[axis] = 0;
    for (const Shaped& part : call.operands) {
        Shape like = part.shape;
        if (like.size() == call.rank())
            like[axis] = call.shape[axis];
        if (like != call.shape)
            throw Error("concat: the shapes ", call.operands[0].shape, " and ", part.shape,
                        " differ elsewhere than along axis ", axis);
        call.shape[axis] += part.shape[axis];
    }
    const Shape strides = strides_of(call.shape);
    std::size_t start = 0;
    for (std::size_t i = 0; i < call.operands.size(); ++i) {
        const Shape& part = call.operands[i].shape;
        add_loop(call, part, {start * strides[axis], strides}, all_of(part), i);
        start += part[axis];
    }
}

/// An operand's part of the whole.
Expression concat_gradient(const Backward& at, std::size_t operand)
{
    const std::size_t axis = at.shaper.needed_axis(*at.call.expression, at.call.rank());
    std::size_t start = 0;
    for (std::size_t i = 0; i < operand; ++i)
        start += at.shape_of(i)[axis];
    return terms::sliced(at.grad, axis, at.call.rank(), start, start + at.shape_of(operand)[axis], at.call.shape[axis]);
}

/// a0 b0 a1 b1 … along the last axis: each operand makes every second cell.
void shape_interleave(Shaped& call, const Shaper&)
{
    const Shape &first = call.operands[0].shape, &second = call.operands[1].shape;
    if (first != second || first.empty())
        throw Error("interleave: the shapes ", first, " and ", second, " differ");
    call.shape = first;
    call.type = common_type(call.operands);
    if (__builtin_mul_overflow(first.back(), std::size_t{2}, &call.shape.back()))
        throw Error("interleave: too many numbers");
    Shape strides = strides_of(first);
    for (std::size_t& stride : strides)
        stride *= 2;
    for (const std::size_t i : {0, 1})
        add_loop(call, first, {i, strides}, all_of(first), i);
}

Expression interleave_gradient(const Backward& at, std::size_t operand)
{
    const std::size_t rank = at.call.rank(), length = at.call.shape.back();
    return terms::sliced(at.grad, rank - 1, rank, operand, length, length, 2);
}

/// Each entry along an axis so many times: as if there were another axis beside it.
void shape_repeat(Shaped& call, const Shaper& shaper)
{
    const Shape& shape = call.operands[0].shape;
    const std::size_t count = shaper.count(call.expression->operands[1]);
    const std::size_t axis = shaper.needed_axis(*call.expression, shape.size());
    call.shape = shape;
    call.type = call.operands[0].type;
    if (__builtin_mul_overflow(shape[axis], count, &call.shape[axis]))
        throw Error("repeat: too many times");
    Loop loop{shape, {}, {all_of(shape)}};
    loop.shape.insert(loop.shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, count);
    loop.from[0].strides.insert(loop.from[0].strides.begin() + static_cast<std::ptrdiff_t>(axis) + 1, 0);
    loop.to = all_of(loop.shape);
    call.loops.push_back(std::move(loop));
}

/// A sum over the copies of each entry.
Expression repeat_gradient(const Backward& at, std::size_t)
{
    Shape shape = at.shape_of(0);
    const std::size_t axis = at.shaper.needed_axis(*at.call.expression, shape.size());
    const std::size_t count = at.shaper.count(at.call.expression->operands[1]);
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, count);
    return terms::along("sum", terms::reshaped(at.grad, shape), axis + 1, shape.size());
}

/// Zeros before and after the entries of an axis.
void shape_pad(Shaped& call, const Shaper& shaper)
{
    const Shape& shape = call.operands[0].shape;
    const std::size_t before = shaper.count(call.expression->operands[1]),
                      after = shaper.count(call.expression->operands[2]),
                      axis = shaper.needed_axis(*call.expression, shape.size());
    call.shape = shape;
    call.type = call.operands[0].type;
    if (__builtin_add_overflow(shape[axis], before, &call.shape[axis]) ||
        __builtin_add_overflow(call.shape[axis], after, &call.shape[axis]))
        throw Error("pad: too many entries");
    const Shape strides = strides_of(call.shape);
    add_loop(call, shape, {before * strides[axis], strides}, all_of(shape));
}

Expression pad_gradient(const Backward& at, std::size_t)
{
    const std::size_t rank = at.call.rank(), axis = at.shaper.needed_axis(*at.call.expression, rank);
    const std::size_t before = at.shaper.count(at.call.expression->operands[1]);
    return terms::sliced(at.grad, axis, rank, before, before + at.shape_of(0)[axis], at.call.shape[axis]);
}

/// Of a square matrix its diagonal.
Expression diagonal_gradient(const Backward& at, std::size_t)
{
    using namespace terms;
    const auto count = number(static_cast<double>(at.shape_of(0)[0]));
    const Expression is_diagonal = compared(widened(call("arange", {count}), 1, 2), "==", call("arange", {count}));
    return along("sum", chosen(is_diagonal, at.grad, number(0)), 1, 2);
}

void shape_diagonal(Shaped& call, const Shaper&)
{
    const Shape& shape = call.operands[0].shape;
    if (shape.size() != 1)
        throw Error("diag needs a vector, not a tensor ", shape);
    call.shape = {shape[0], shape[0]};
    call.type = call.operands[0].type;
    add_loop(call, shape, {0, {shape[0] + 1}}, {0, {1}});
}

// --------------------------------------------------------------------------------------------------------- subscripts

/// Walks from a tensor to what its subscripts take of it, axis by axis.
class Subscripts {
public:
    Subscripts(const Shape& operand, const Shaper& shaper)
        : shape_(operand), strides_(strides_of(operand)), shaper_(shaper)
    {
    }

    /// The one subscript, an index that is known.
    void take_only(std::ptrdiff_t at, const Expression& index)
    {
        if (shape_.empty())
            throw too_many();
        take_index(at, index);
        while (axis_ < shape_.size())
            take_whole_axis();
    }

    /// An index takes an axis away, a new axis takes none, and ... takes all that no other entry takes.
    void take(const std::vector<Subscript>& subscripts)
    {
        std::size_t unwritten = axes_of_ellipsis(subscripts);
        for (const Subscript& entry : subscripts) {
            if (entry.kind == Subscript::Kind::new_axis)
                add(1, 0);
            else if (entry.kind == Subscript::Kind::ellipsis)
                for (; unwritten > 0; --unwritten)
                    take_whole_axis();
            else if (axis_ == shape_.size())
                throw too_many();
            else if (entry.kind == Subscript::Kind::index)
                take_index(shaper_.whole(*entry.index), *entry.index);
            else
                take_slice(entry);
        }
        while (axis_ < shape_.size())
            take_whole_axis();
    }

    Shape shape;
    CellView view;

    /// What is taken of each axis of the tensor: so many entries from one on, each so many after the one before.
    struct Taken {
        std::size_t start, count;
        std::ptrdiff_t step;
    };
    std::vector<Taken> taken;

private:
    Error too_many() const
    {
        return Error("more subscripts than the " + std::to_string(shape_.size()) + " axes of " + to_string(shape_));
    }

    std::size_t axes_of_ellipsis(const std::vector<Subscript>& subscripts) const
    {
        const auto number_of = [&](Subscript::Kind kind) {
            return static_cast<std::size_t>(std::ranges::count(subscripts, kind, &Subscript::kind));
        };
        const std::size_t ellipses = number_of(Subscript::Kind::ellipsis);
        if (ellipses > 1)
            throw Error("only one ... can stand for the axes that are not written");
        const std::size_t given = subscripts.size() - ellipses - number_of(Subscript::Kind::new_axis);
        return ellipses == 1 && shape_.size() > given ? shape_.size() - given : 0;
    }

    void add(std::size_t length, std::size_t stride)
    {
        shape.push_back(length);
        view.strides.push_back(stride);
    }

    void take_whole_axis()
    {
        taken.push_back({0, shape_[axis_], 1});
        add(shape_[axis_], strides_[axis_]);
        ++axis_;
    }

    void take_index(std::ptrdiff_t at, const Expression& index)
    {
        const auto length = static_cast<std::ptrdiff_t>(shape_[axis_]);
        if (at < -length || at >= length)
            shaper_.fail(index, "there is no index " + std::to_string(at) + " on an axis of " + std::to_string(length));
        taken.push_back({static_cast<std::size_t>(at < 0 ? at + length : at), 1, 1});
        view.first += taken.back().start * strides_[axis_];
        ++axis_;
    }

    /// As Python: ends beyond the axis are cut, negative ones count from the end.
    void take_slice(const Subscript& slice)
    {
        const auto length = static_cast<std::ptrdiff_t>(shape_[axis_]);
        const std::ptrdiff_t step = slice.step ? shaper_.whole(*slice.step) : 1;
        if (step == 0)
            shaper_.fail(*slice.step, "a slice's step can't be 0");
        const std::ptrdiff_t lowest = step > 0 ? 0 : -1, highest = step > 0 ? length : length - 1;
        const auto bound = [&](const std::optional<Expression>& given, std::ptrdiff_t otherwise) {
            if (!given)
                return otherwise;
            const std::ptrdiff_t at = shaper_.whole(*given);
            return std::clamp(at < 0 ? at + length : at, lowest, highest);
        };
        const std::ptrdiff_t start = bound(slice.start, step > 0 ? lowest : highest);
        const std::ptrdiff_t stop = bound(slice.stop, step > 0 ? highest : lowest);
        const std::ptrdiff_t distance = step > 0 ? stop - start : start - stop, stride = std::abs(step);
        const std::ptrdiff_t count = distance > 0 ? (distance + stride - 1) / stride : 0;
        taken.push_back({count > 0 ? static_cast<std::size_t>(start) : 0, static_cast<std::size_t>(count), step});
        view.first += taken.back().start * strides_[axis_];
        add(static_cast<std::size_t>(count), static_cast<std::size_t>(step) * strides_[axis_]);
        ++axis_;
    }

    const Shape& shape_;
    Shape strides_;
    const Shaper& shaper_;
    std::size_t axis_ = 0;
};

/// One axis as it was before a slice: what was not taken of it is 0.
/// @param x  of a shape whose other axes are the tensor's, or what was taken of them
Expression unsliced(Expression x, Shape shape, std::size_t axis, std::size_t length, Subscripts::Taken taken)
{
    using namespace terms;
    const std::size_t rank = shape.size();
    const auto padded = [](Expression part, std::size_t before, std::size_t after, std::size_t along_axis,
                           std::size_t of_rank) {
        if (before == 0 && after == 0)
            return part;
        Expression result = along("pad", std::move(part), along_axis, of_rank);
        result.operands.push_back(number(static_cast<double>(before)));
        result.operands.push_back(number(static_cast<double>(after)));
        return result;
    };
    if (taken.step < 0) { // backwards: it began where it ends
        x = sliced(std::move(x), axis, rank, 0, taken.count, taken.count, -1);
        taken.step = -taken.step;
        taken.start -= taken.count > 0 ? (taken.count - 1) * static_cast<std::size_t>(taken.step) : 0;
    }
    const auto step = static_cast<std::size_t>(taken.step);
    std::size_t reach = taken.count;
    if (step > 1 && taken.count > 1) { // zeros between
        x = padded(widened(std::move(x), axis + 1, rank + 1), 0, step - 1, axis + 1, rank + 1);
        shape[axis] = taken.count * step;
        reach = (taken.count - 1) * step + 1;
        x = sliced(reshaped(std::move(x), shape), axis, rank, 0, std::min(shape[axis], length - taken.start),
                   shape[axis]);
        reach = std::min(shape[axis], length - taken.start);
    }
    return padded(std::move(x), taken.start, length - taken.start - reach, axis, rank);
}

Expression subscripted_gradient(const Backward& at, std::size_t)
{
    const Shape& whole = at.shape_of(0);
    Subscripts walk(whole, at.shaper);
    walk.take(at.call.expression->subscripts);
    Shape shape; // of what was taken, an axis for each of the tensor
    for (const Subscripts::Taken& one : walk.taken)
        shape.push_back(one.count);
    Expression grad = shape == at.call.shape ? at.grad : terms::reshaped(at.grad, shape);
    for (std::size_t axis = 0; axis < whole.size(); ++axis) {
        grad = unsliced(std::move(grad), shape, axis, whole[axis], walk.taken[axis]);
        shape[axis] = whole[axis];
    }
    return grad;
}

extern const Function gathering;

/// Rows of a table, where there is one subscript and that has axes; else slices.
void shape_subscripted(Shaped& call, const Shaper& shaper)
{
    const std::vector<Subscript>& subscripts = call.expression->subscripts;
    const Shape shape = call.operands[0].shape;
    call.type = call.operands[0].type;
    Subscripts walk(shape, shaper);
    if (subscripts.size() == 1 && subscripts[0].kind == Subscript::Kind::index) {
        call.operands.push_back(shaper.shaped(*subscripts[0].index));
        if (call.operands[1].rank() > 0) {
            call.function = &gathering;
            return gathering.shape(call, shaper);
        }
        walk.take_only(shaper.whole(call.operands[1]), *subscripts[0].index);
        call.operands.pop_back();
    } else {
        walk.take(subscripts);
    }
    call.shape = walk.shape;
    add_loop(call, call.shape, all_of(call.shape), walk.view);
}

void shape_gathered(Shaped& call, const Shaper&)
{
    const Shape &table = call.operands[0].shape, &ids = call.operands[1].shape;
    if (table.empty())
        throw Error("a single number has no rows to gather");
    call.shape = ids;
    call.shape.insert(call.shape.end(), table.begin() + 1, table.end());
}

std::size_t row_length(const Shaped& call)
{
    const Shape& table = call.operands[0].shape;
    return element_count(Shape(table.begin() + 1, table.end()));
}

std::size_t row_start(const Shaped& call, double id)
{
    const Shape& table = call.operands[0].shape;
    if (!(id >= 0 && id < static_cast<double>(table[0])) || id != std::trunc(id))
        throw Error("there is no row ", exact_text(id), " in a table ", table);
    return static_cast<std::size_t>(id) * row_length(call);
}

Cells gathered(const Shaped& call, const std::vector<Cells>& operands, const Rounding&)
{
    Cells result = make_cells(call.shape);
    const Array* table = call.operands[0].array; // of which most rows are not needed
    const Cells made = call.operands[1].array == nullptr ? Cells() : exact_cells(*call.operands[1].array);
    auto to = result.cells.begin();
    for (const Rounded& id : call.operands[1].array == nullptr ? operands[1].cells : made.cells) {
        const auto first = static_cast<std::ptrdiff_t>(row_start(call, id.value));
        to = table == nullptr
                 ? std::copy_n(operands[0].cells.begin() + first, row_length(call), to)
                 : std::transform(table->values.begin() + first,
                                  table->values.begin() + first + static_cast<std::ptrdiff_t>(row_length(call)), to,
                                  [](double value) {
                                      return Rounded{value, 0};
                                  });
    }
    return result;
}

const Scalar& gathered_cell(const Shaped& call, std::size_t offset, Scalars& scalars)
{
    const std::size_t length = row_length(call);
    const Scalar& id = scalars.cell(call.operands[1], offset / length);
    const Scalar& taken = scalars.cell(call.operands[0], row_start(call, id.value.value) + offset % length);
    return *Arithmetic(scalars, call, offset).noted(Scalar::Note::row, &taken, &id);
}

/// A row's gradient is the sum over all that it was taken for; none arrives at the ids.
Expression gathered_gradient(const Backward& at, std::size_t)
{
    return terms::call("scatter_add", {at.grad, at.operands[1], terms::number(static_cast<double>(at.shape_of(0)[0]))});
}

const Function gathering{.kind = Kind::indexed,
                         .name = "gather",
                         .shape = shape_gathered,
                         .reads = [](const Shaped& operand) { return operand.array != nullptr; },
                         .numbers = gathered,
                         .cell = gathered_cell,
                         .gradient = gathered_gradient,
                         .has_ids = true};

} // namespace

std::span<const Function> rearranging_functions()
{
    using More = Function::More;
    static const Function functions[] = {
        moves({.kind = Kind::transposed, .shape = shape_transposed, .gradient = transposed_gradient}),
        moves({.kind = Kind::indexed, .shape = shape_subscripted, .gradient = subscripted_gradient}),
        moves({.name = "permute",
               .in_numpy = "transpose",
               .more = More::numbers,
               .shape = shape_permute,
               .gradient = permute_gradient}),
        moves({.name = "reshape", .more = More::numbers, .shape = shape_reshape, .gradient = reshape_gradient}),
        moves({.name = "concat",
               .in_numpy = "concatenate",
               .more = More::tensors,
               .keywords = {"axis"},
               .shape = shape_concat,
               .gradient = concat_gradient}),
        moves({.name = "repeat",
               .numbers_after = 1,
               .keywords = {"axis"},
               .shape = shape_repeat,
               .gradient = repeat_gradient}),
        moves({.name = "pad", .numbers_after = 2, .keywords = {"axis"}, .shape = shape_pad, .gradient = pad_gradient}),
        moves({.name = "interleave", .tensors = 2, .shape = shape_interleave, .gradient = interleave_gradient}),
        moves({.name = "diag", .shape = shape_diagonal, .gradient = diagonal_gradient}),
    };
    return functions;
}

} // namespace attn::formula
