#include "arithmetic.hpp"

#include "shaped.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <unordered_map>

namespace attn {
namespace {

using Kind = Scalar::Kind;
using Operation = Shaped::Operation;

constexpr double infinity = std::numeric_limits<double>::infinity();

/// The index of an operand that was broadcast, from the result's: the last axes, 0 along those of size 1.
Shape broadcast_index(const Shape& index, const Shape& shape)
{
    Shape own(index.end() - static_cast<std::ptrdiff_t>(shape.size()), index.end());
    for (std::size_t axis = 0; axis < shape.size(); ++axis)
        own[axis] = shape[axis] == 1 ? 0 : own[axis];
    return own;
}

Shape with(Shape index, std::size_t axis, std::size_t place)
{
    index[axis] = place;
    return index;
}

Shape appended(Shape index, std::size_t place)
{
    index.push_back(place);
    return index;
}

Cells single(Rounded value, bool truth)
{
    Cells cells = make_cells({});
    cells.cells[0] = value;
    cells.truth = truth;
    return cells;
}

} // namespace

std::size_t offset_of(const Shape& index, const Shape& shape)
{
    std::size_t offset = 0;
    for (std::size_t axis = 0; axis < shape.size(); ++axis)
        offset = offset * shape[axis] + index[axis];
    return offset;
}

/// Makes the arithmetic of single cells; what was made once is used again.
class FormulaCells::Builder {
public:
    Builder(std::string_view formula, Lookup lookup) : formula_(formula), lookup_(std::move(lookup))
    {
        expression_ = parse_formula(formula_);
        Shaper shaper(formula_, lookup_, [this](const Shaped& scalar) { return cell(scalar, {}).value.value; });
        root_ = shaper.shaped(expression_);
    }

    const Shape& shape() const { return root_.shape; }
    const Scalar& at(const Shape& index) { return cell(root_, index); }

private:
    const Scalar& cell(const Shaped& shaped, const Shape& index)
    {
        const Place place{shaped.id, offset_of(index, shaped.shape)};
        if (const auto found = made_.find(place); found != made_.end())
            return *found->second;
        try {
            const Scalar& made = make(shaped, index);
            made_.emplace(place, &made);
            return made;
        } catch (const FormulaError&) {
            throw;
        } catch (const Error& error) {
            throw FormulaError(formula_, shaped.expression->position, error.what());
        }
    }

    const Scalar& make(const Shaped& shaped, const Shape& index)
    {
        switch (shaped.operation) {
        case Operation::number:
            return number(shaped, shaped.number);
        case Operation::arange:
            return number(shaped, static_cast<double>(index[0]));
        case Operation::name:
            return named(shaped, index);
        case Operation::size: {
            Scalar size = scalar(Kind::size, shaped);
            size.value = {shaped.number, 0};
            return keep(std::move(size));
        }
        case Operation::negated:
            return negated(shaped, index);
        case Operation::elementwise:
            return elementwise(shaped, cell(shaped.operands[0], broadcast_index(index, shaped.operands[0].shape)),
                               cell(shaped.operands[1], broadcast_index(index, shaped.operands[1].shape)));
        case Operation::function:
            return function(shaped, cell(shaped.operands[0], index));
        case Operation::matmul:
            return matmul(shaped, index);
        case Operation::outer:
            return binary(shaped, &product_, cell(shaped.operands[0], {index[0]}),
                          cell(shaped.operands[1], {index[1]}));
        case Operation::softmax:
            return softmax(shaped, index);
        case Operation::reduced:
            return reduced(shaped, index);
        case Operation::where:
            return where(shaped, index);
        case Operation::gathered:
            return gathered(shaped, index);
        case Operation::diag:
            return index[0] == index[1] ? cell(shaped.operands[0], {index[0]}) : off_diagonal(shaped);
        default:
            return moved(shaped, index);
        }
    }

    // ------------------------------------------------------------------------------------------------------- scalars

    static Scalar scalar(Kind kind, const Shaped& shaped)
    {
        Scalar scalar;
        scalar.kind = kind;
        scalar.origin = shaped.expression;
        return scalar;
    }

    /// @throws Error where there would be too many
    const Scalar& keep(Scalar scalar)
    {
        constexpr std::size_t most = std::size_t{1} << 21;
        if (scalars_.size() >= most)
            throw Error("takes more numbers than can be explained");
        return scalars_.emplace_back(std::move(scalar));
    }

    const Scalar& number(const Shaped& shaped, double value)
    {
        Scalar number = scalar(Kind::number, shaped);
        number.value = {value, 0};
        return keep(std::move(number));
    }

    const Scalar& named(const Shaped& shaped, const Shape& index)
    {
        Scalar cell = scalar(Kind::cell, shaped);
        cell.truth = shaped.truth;
        cell.value = {shaped.array->values[offset_of(index, shaped.shape)], 0};
        cell.array = shaped.array;
        cell.index = index;
        return keep(std::move(cell));
    }

    const Scalar& negated(const Shaped& shaped, const Shape& index)
    {
        const Scalar& operand = cell(shaped.operands[0], index);
        Scalar negated = scalar(Kind::negated, shaped);
        negated.value = rounding_.multiply({-1, 0}, operand.value);
        negated.operands = {&operand};
        return keep(std::move(negated));
    }

    const Scalar& elementwise(const Shaped& shaped, const Scalar& left, const Scalar& right)
    {
        return binary(shaped, shaped.expression, left, right);
    }

    /// @param op  an expression with that operator
    const Scalar& binary(const Shaped& shaped, const Expression* op, const Scalar& left, const Scalar& right)
    {
        Scalar binary = scalar(Kind::binary, shaped);
        binary.origin = op;
        binary.truth = shaped.truth && op == shaped.expression;
        binary.value = calculated(op->text, left, right);
        binary.operands = {&left, &right};
        return keep(std::move(binary));
    }

    Rounded calculated(std::string_view op, const Scalar& left, const Scalar& right) const
    {
        if (op == "*")
            return rounding_.multiply(left.value, right.value);
        if (op == "-")
            return rounding_.subtract(left.value, right.value);
        return attn::elementwise(op, single(left.value, true), single(right.value, true), rounding_).cells[0];
    }

    const Scalar& function(const Shaped& shaped, const Scalar& argument)
    {
        return function(shaped, shaped.expression, argument);
    }

    const Scalar& function(const Shaped& shaped, const Expression* named, const Scalar& argument)
    {
        Scalar function = scalar(Kind::function, shaped);
        function.origin = named;
        function.value = elementary(named->text, single(argument.value, false), rounding_)->cells[0];
        function.operands = {&argument};
        return keep(std::move(function));
    }

    const Scalar& noted(const Shaped& shaped, Scalar::Note note, const Scalar& operand, const Scalar* about,
                        std::size_t count = 0)
    {
        Scalar noted = scalar(Kind::noted, shaped);
        noted.note = note;
        noted.truth = operand.truth;
        noted.value = operand.value;
        noted.operands = {&operand};
        noted.about = about;
        noted.count = count;
        return keep(std::move(noted));
    }

    // ---------------------------------------------------------------------------------------------------------- sums

    const Scalar& total(const Shaped& shaped, std::vector<const Scalar*> terms)
    {
        RoundedSum sum(rounding_);
        for (const Scalar* term : terms)
            sum.add(term->value);
        Scalar total = scalar(Kind::total, shaped);
        total.value = sum.result();
        total.operands = std::move(terms);
        return keep(std::move(total));
    }

    /// What is a part of its own where it is in another sum: of two terms or more.
    const Scalar& part(const Shaped& shaped, const Shape& index, const Scalar& operand, std::size_t terms)
    {
        if (terms < 2)
            return operand;
        Scalar part = scalar(Kind::part, shaped);
        part.value = operand.value;
        part.index = index;
        part.operands = {&operand};
        return keep(std::move(part));
    }

    const Scalar& matmul(const Shaped& shaped, const Shape& index)
    {
        const Shaped &left = shaped.operands[0], &right = shaped.operands[1];
        const bool is_row = left.rank() == 1, is_column = right.rank() == 1;
        Shape stack = index;
        Shape row, column;
        if (!is_column) {
            column = {stack.back()};
            stack.pop_back();
        }
        if (!is_row) {
            row = {stack.back()};
            stack.pop_back();
        }
        const Shape left_stack =
            is_row ? Shape{} : broadcast_index(stack, Shape(left.shape.begin(), left.shape.end() - 2));
        const Shape right_stack =
            is_column ? Shape{} : broadcast_index(stack, Shape(right.shape.begin(), right.shape.end() - 2));

        std::vector<const Scalar*> terms;
        for (std::size_t inner = 0; inner < left.shape.back(); ++inner) {
            Shape l = left_stack, r = appended(right_stack, inner);
            l.insert(l.end(), row.begin(), row.end());
            r.insert(r.end(), column.begin(), column.end());
            terms.push_back(&binary(shaped, &product_, cell(left, appended(l, inner)), cell(right, r)));
        }
        const std::size_t count = terms.size();
        return part(shaped, index, total(shaped, std::move(terms)), count);
    }

    /// The cells of an operand that a cell of a reduction is of.
    std::vector<const Scalar*> line(const Shaped& shaped, const Shape& index)
    {
        const Shaped& x = shaped.operands[0];
        std::vector<const Scalar*> cells;
        if (!shaped.axis) {
            const std::size_t count = element_count(x.shape);
            for (std::size_t offset = 0; offset < count; ++offset)
                cells.push_back(&cell(x, index_at(offset, x.shape)));
            return cells;
        }
        Shape at = index;
        if (at.size() < x.rank())
            at.insert(at.begin() + static_cast<std::ptrdiff_t>(*shaped.axis), 0);
        for (std::size_t along = 0; along < x.shape[*shaped.axis]; ++along)
            cells.push_back(&cell(x, with(at, *shaped.axis, along)));
        return cells;
    }

    const Scalar& reduced(const Shaped& shaped, const Shape& index)
    {
        const std::string& name = shaped.expression->text;
        std::vector<const Scalar*> cells = line(shaped, index);
        const std::size_t count = cells.size();
        if (name == "max" || name == "min")
            return extreme(shaped, cells, name == "max");
        const Scalar& sum = total(shaped, std::move(cells));
        if (name == "sum")
            return part(shaped, index, sum, count);
        return part(shaped, index, binary(shaped, &quotient_, sum, number(shaped, static_cast<double>(count))), count);
    }

    const Scalar& extreme(const Shaped& shaped, const std::vector<const Scalar*>& cells, bool largest)
    {
        if (cells.empty())
            return number(shaped, largest ? -infinity : infinity);
        const Scalar* best = cells.front();
        double error = 0;
        for (const Scalar* next : cells) {
            error = std::max(error, next->value.error);
            if (!std::isnan(best->value.value) &&
                (std::isnan(next->value.value) ||
                 (largest ? next->value.value > best->value.value : next->value.value < best->value.value)))
                best = next;
        }
        Scalar chosen =
            noted(shaped, largest ? Scalar::Note::largest : Scalar::Note::smallest, *best, best, cells.size());
        chosen.value.error = std::isfinite(chosen.value.value) ? error : 0;
        return keep(std::move(chosen));
    }

    const Scalar& softmax(const Shaped& shaped, const Shape& index)
    {
        const Shape start = with(index, *shaped.axis, 0);
        const Exponentials& all = exponentials(shaped, start);
        if (all.sum == nullptr) {
            Scalar zero;
            zero.origin = shaped.expression;
            return noted(shaped, Scalar::Note::all_forbidden, keep(std::move(zero)), all.largest);
        }
        return part(shaped, index, binary(shaped, &quotient_, *all.cells[index[*shaped.axis]], *all.sum),
                    all.cells.size());
    }

    /// What all cells of a softmax along one line share.
    struct Exponentials {
        const Scalar* largest = nullptr;
        std::vector<const Scalar*> cells;
        const Scalar* sum = nullptr; ///< none where all is minus infinity
    };

    const Exponentials& exponentials(const Shaped& shaped, const Shape& start)
    {
        const Place place{shaped.id, offset_of(start, shaped.shape)};
        if (const auto found = exponentials_.find(place); found != exponentials_.end())
            return found->second;
        Exponentials all;
        const std::vector<const Scalar*> cells = line(shaped, start);
        Scalar largest = extreme(shaped, cells, true);
        largest.value.error = 0; // whoever subtracts another number subtracts it everywhere
        all.largest = &keep(std::move(largest));
        if (all.largest->value.value != -infinity) {
            for (const Scalar* x : cells)
                all.cells.push_back(&function(shaped, &exponential_, binary(shaped, &difference_, *x, *all.largest)));
            all.sum = &total(shaped, all.cells);
        }
        return exponentials_.emplace(place, std::move(all)).first->second;
    }

    // ------------------------------------------------------------------------------------------------------- choices

    const Scalar& where(const Shaped& shaped, const Shape& index)
    {
        const auto operand = [&](std::size_t i) -> const Scalar& {
            return cell(shaped.operands[i], broadcast_index(index, shaped.operands[i].shape));
        };
        const Scalar& condition = operand(0);
        return noted(shaped, Scalar::Note::branch, operand(condition.value.value != 0 ? 1 : 2), &condition);
    }

    const Scalar& gathered(const Shaped& shaped, const Shape& index)
    {
        const Shaped &table = shaped.operands[0], &ids = shaped.operands[1];
        const auto split = index.begin() + static_cast<std::ptrdiff_t>(ids.rank());
        const Scalar& id = cell(ids, Shape(index.begin(), split));
        const double row = id.value.value;
        if (!(row >= 0 && row < static_cast<double>(table.shape[0])) || row != std::trunc(row))
            throw Error("there is no row " + exact_text(row) + " in a table " + to_string(table.shape));
        Shape at{static_cast<std::size_t>(row)};
        at.insert(at.end(), split, index.end());
        return noted(shaped, Scalar::Note::row, cell(table, at), &id);
    }

    const Scalar& off_diagonal(const Shaped& shaped)
    {
        return noted(shaped, Scalar::Note::off_diagonal, number(shaped, 0), nullptr);
    }

    // -------------------------------------------------------------------------------------------------------- moving

    /// The cell that an operation takes which only moves numbers.
    const Scalar& moved(const Shaped& shaped, Shape index)
    {
        const Shaped& x = shaped.operands[0];
        switch (shaped.operation) {
        case Operation::transposed:
            if (index.size() > 1)
                std::swap(index[index.size() - 1], index[index.size() - 2]);
            return cell(x, index);
        case Operation::permute: {
            Shape from(index.size());
            for (std::size_t axis = 0; axis < index.size(); ++axis)
                from[shaped.order[axis]] = index[axis];
            return cell(x, from);
        }
        case Operation::reshape:
            return cell(x, index_at(offset_of(index, shaped.shape), x.shape));
        case Operation::repeat:
            index[*shaped.axis] /= shaped.count;
            return cell(x, index);
        case Operation::interleave: {
            const Shaped& from = shaped.operands[index.back() % 2];
            index.back() /= 2;
            return cell(from, index);
        }
        case Operation::concat: {
            std::size_t part = 0;
            while (index[*shaped.axis] >= shaped.operands[part].shape[*shaped.axis])
                index[*shaped.axis] -= shaped.operands[part++].shape[*shaped.axis];
            return cell(shaped.operands[part], index);
        }
        default:
            return cell(x, before_subscripts(shaped.ranges, index));
        }
    }

    static Shape before_subscripts(const std::vector<Range>& ranges, const Shape& index)
    {
        Shape from;
        std::size_t axis = 0;
        for (const Range& range : ranges) {
            if (range.kind == Range::Kind::index)
                from.push_back(static_cast<std::size_t>(range.start));
            if (range.kind == Range::Kind::slice)
                from.push_back(
                    static_cast<std::size_t>(range.start + range.step * static_cast<std::ptrdiff_t>(index[axis])));
            axis += range.kind == Range::Kind::index ? 0 : 1;
        }
        return from;
    }

    /// An operator or a function that no formula has written.
    static Expression unwritten(Expression::Kind kind, std::string text)
    {
        Expression expression;
        expression.kind = kind;
        expression.text = std::move(text);
        return expression;
    }

    /// Where a scalar has been made for: an expression, and the offset in its value.
    struct Place {
        std::size_t id, offset;
        bool operator==(const Place&) const = default;
    };
    struct Hash {
        std::size_t operator()(const Place& place) const { return place.offset * 0x9E3779B97F4A7C15u + place.id; }
    };

    const Expression product_ = unwritten(Expression::Kind::binary, "*");
    const Expression quotient_ = unwritten(Expression::Kind::binary, "/");
    const Expression difference_ = unwritten(Expression::Kind::binary, "-");
    const Expression exponential_ = unwritten(Expression::Kind::call, "exp");

    std::string formula_;
    Lookup lookup_;
    Rounding rounding_{double_roundoff};
    Expression expression_;
    Shaped root_;
    std::deque<Scalar> scalars_;
    std::unordered_map<Place, const Scalar*, Hash> made_;
    std::unordered_map<Place, Exponentials, Hash> exponentials_;
};

FormulaCells::FormulaCells(std::string_view formula, Lookup lookup)
    : builder_(std::make_unique<Builder>(formula, std::move(lookup)))
{
}

FormulaCells::~FormulaCells() = default;

const Shape& FormulaCells::shape() const { return builder_->shape(); }

const Scalar& FormulaCells::at(const Shape& index) { return builder_->at(index); }

} // namespace attn
