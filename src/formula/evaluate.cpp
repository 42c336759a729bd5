#include "attn/formula/evaluate.hpp"

#include "operations.hpp"

#include <algorithm>
#include <cmath>

namespace attn {
namespace {

/// Walks the tree of a formula, leaves first.
class Evaluator {
public:
    Evaluator(std::string_view formula, const Lookup& lookup, double roundoff)
        : formula_(formula), lookup_(lookup), rounding_(roundoff)
    {
    }

    /// @throws FormulaError at the place of the innermost expression that can't be computed
    Cells evaluate(const Expression& expression) const
    {
        try {
            return evaluate_kind(expression);
        } catch (const FormulaError&) {
            throw;
        } catch (const Error& error) {
            throw FormulaError(formula_, expression.position, error.what());
        }
    }

private:
    Cells evaluate_kind(const Expression& e) const
    {
        switch (e.kind) {
        case Expression::Kind::number:
            return number(e.number);
        case Expression::Kind::name:
            return named(e.text);
        case Expression::Kind::negated:
            return elementwise("*", number(-1), evaluate(e.operands[0]), rounding_);
        case Expression::Kind::binary:
            return e.text == "@" ? matmul(evaluate(e.operands[0]), evaluate(e.operands[1]), rounding_)
                                 : elementwise(e.text, evaluate(e.operands[0]), evaluate(e.operands[1]), rounding_);
        case Expression::Kind::transposed:
            return transposed(evaluate(e.operands[0]));
        case Expression::Kind::size:
            return size(evaluate(e.operands[0]), e.operands[1]);
        case Expression::Kind::indexed:
            return subscripted(evaluate(e.operands[0]), e.subscripts);
        case Expression::Kind::call:
            return called(e);
        }
        throw Error("is no formula");
    }

    static Cells number(double value)
    {
        Cells cells = make_cells({});
        cells.cells[0].value = value;
        return cells;
    }

    Cells named(const std::string& name) const
    {
        const Array* array = lookup_(name);
        if (array == nullptr)
            throw Error("no earlier step is called " + name);
        Cells cells = make_cells(array->shape);
        std::ranges::transform(array->values, cells.cells.begin(), [](double value) { return Rounded{value, 0}; });
        cells.truth = array->type == ElementType::boolean;
        return cells;
    }

    Cells size(const Cells& x, const Expression& axis) const
    {
        return number(static_cast<double>(x.shape[axis_of(axis, x.rank())]));
    }

    // ------------------------------------------------------------------------------------------------- whole numbers

    /// The value of an expression that has to be a whole number.
    std::ptrdiff_t whole(const Expression& expression) const
    {
        const Cells cells = evaluate(expression);
        if (cells.rank() != 0 || cells.cells[0].value != std::trunc(cells.cells[0].value) ||
            std::abs(cells.cells[0].value) > 1e15)
            throw FormulaError(formula_, expression.position, "expected a whole number");
        return static_cast<std::ptrdiff_t>(cells.cells[0].value);
    }

    std::size_t count(const Expression& expression) const
    {
        const std::ptrdiff_t value = whole(expression);
        if (value < 0)
            throw FormulaError(formula_, expression.position, "expected a whole number from 0");
        return static_cast<std::size_t>(value);
    }

    /// An axis; negative ones count from the last.
    std::size_t axis_of(const Expression& expression, std::size_t rank) const
    {
        const std::ptrdiff_t axis = whole(expression), axes = static_cast<std::ptrdiff_t>(rank);
        if (axis < -axes || axis >= axes)
            throw FormulaError(formula_, expression.position,
                               "there is no axis " + std::to_string(axis) + " in a tensor of " + std::to_string(rank));
        return static_cast<std::size_t>(axis < 0 ? axis + axes : axis);
    }

    // ---------------------------------------------------------------------------------------------------- subscripts

    Cells subscripted(const Cells& x, const std::vector<Subscript>& subscripts) const
    {
        if (subscripts.size() == 1 && subscripts[0].kind == Subscript::Kind::index) {
            const Cells ids = evaluate(*subscripts[0].index);
            if (ids.rank() > 0)
                return gathered(x, ids);
        }
        std::vector<Range> ranges;
        std::size_t axis = 0;
        std::size_t skipped = axes_behind_ellipsis(x, subscripts);
        for (const Subscript& subscript : subscripts) {
            if (subscript.kind == Subscript::Kind::new_axis) {
                ranges.push_back({Range::Kind::new_axis});
                continue;
            }
            if (subscript.kind == Subscript::Kind::ellipsis) {
                for (; skipped > 0; --skipped)
                    ranges.push_back(whole_axis(x.shape[axis++]));
                continue;
            }
            if (axis == x.rank())
                throw Error("more subscripts than the " + std::to_string(x.rank()) + " axes of " + to_string(x.shape));
            const auto length = static_cast<std::ptrdiff_t>(x.shape[axis++]);
            ranges.push_back(subscript.kind == Subscript::Kind::index ? index(subscript, length)
                                                                      : slice(subscript, length));
        }
        return indexed(x, ranges);
    }

    /// How many axes the entry ... stands for: all that no other entry takes.
    static std::size_t axes_behind_ellipsis(const Cells& x, const std::vector<Subscript>& subscripts)
    {
        const auto is = [](Subscript::Kind kind) {
            return [kind](const Subscript& subscript) { return subscript.kind == kind; };
        };
        const auto ellipses = std::ranges::count_if(subscripts, is(Subscript::Kind::ellipsis));
        if (ellipses > 1)
            throw Error("only one ... can stand for the axes that are not written");
        const auto new_axes = std::ranges::count_if(subscripts, is(Subscript::Kind::new_axis));
        const std::size_t taken = subscripts.size() - static_cast<std::size_t>(ellipses + new_axes);
        return ellipses == 1 && x.rank() > taken ? x.rank() - taken : 0;
    }

    static Range whole_axis(std::size_t length) { return {Range::Kind::slice, 0, static_cast<std::ptrdiff_t>(length)}; }

    Range index(const Subscript& subscript, std::ptrdiff_t length) const
    {
        const std::ptrdiff_t at = whole(*subscript.index);
        if (at < -length || at >= length)
            throw FormulaError(formula_, subscript.index->position,
                               "there is no index " + std::to_string(at) + " on an axis of " + std::to_string(length));
        return {Range::Kind::index, at < 0 ? at + length : at};
    }

    /// As Python: ends beyond the axis are cut, negative ones count from the end.
    Range slice(const Subscript& subscript, std::ptrdiff_t length) const
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

    // ----------------------------------------------------------------------------------------------------- functions

    Cells called(const Expression& call) const
    {
        const std::string& name = call.text;
        if (name == "sum" || name == "mean" || name == "max" || name == "min")
            return reduce(call);
        if (name == "softmax") {
            const Cells x = argument(call, 1, {"axis"});
            return softmax(x, axis_or(call, x.rank(), -1), rounding_);
        }
        if (name == "where") {
            expect(call, 3, {});
            return where(evaluate(call.operands[0]), evaluate(call.operands[1]), evaluate(call.operands[2]));
        }
        if (name == "concat")
            return concat(call);
        if (name == "repeat") {
            expect(call, 2, {"axis"});
            const Cells x = evaluate(call.operands[0]);
            return repeated(x, count(call.operands[1]), axis_or(call, x.rank(), std::nullopt));
        }
        if (name == "interleave" || name == "outer") {
            expect(call, 2, {});
            const Cells first = evaluate(call.operands[0]), second = evaluate(call.operands[1]);
            return name == "outer" ? outer(first, second, rounding_) : interleaved(first, second);
        }
        if (name == "diag")
            return diagonal(argument(call, 1, {}));
        if (name == "arange") {
            expect(call, 1, {});
            return counted(count(call.operands[0]));
        }
        if (name == "reshape" || name == "permute")
            return rearrange(call);
        if (const std::optional<Cells> result = elementary(name, argument(call, 1, {}), rounding_))
            return *result;
        throw Error("there is no function " + name);
    }

    Cells reduce(const Expression& call) const
    {
        const Cells x = argument(call, 1, {"axis", "keepdims"});
        const Expression* axis = keyword(call, "axis");
        const Expression* keep = keyword(call, "keepdims");
        if (keep != nullptr && keep->text != "True" && keep->text != "False")
            throw FormulaError(formula_, keep->position, "expected True or False");
        return reduced(call.text, x, axis ? std::optional(axis_of(*axis, x.rank())) : std::nullopt,
                       keep != nullptr && keep->text == "True", rounding_);
    }

    Cells concat(const Expression& call) const
    {
        expect(call, std::max<std::size_t>(call.operands.size(), 1), {"axis"});
        std::vector<Cells> parts;
        for (const Expression& operand : call.operands)
            parts.push_back(evaluate(operand));
        return concatenated(parts, axis_or(call, parts.front().rank(), std::nullopt));
    }

    Cells rearrange(const Expression& call) const
    {
        expect(call, std::max<std::size_t>(call.operands.size(), 1), {});
        const Cells x = evaluate(call.operands[0]);
        std::vector<std::size_t> numbers;
        for (std::size_t i = 1; i < call.operands.size(); ++i)
            numbers.push_back(call.text == "reshape" ? count(call.operands[i]) : axis_of(call.operands[i], x.rank()));
        return call.text == "reshape" ? reshaped(x, numbers) : permuted(x, numbers);
    }

    /// The only argument, once the call is known to have the right ones.
    Cells argument(const Expression& call, std::size_t arguments,
                   std::initializer_list<std::string_view> keywords) const
    {
        expect(call, arguments, keywords);
        return evaluate(call.operands[0]);
    }

    void expect(const Expression& call, std::size_t arguments, std::initializer_list<std::string_view> keywords) const
    {
        if (call.operands.size() != arguments)
            throw Error(call.text + " takes " + std::to_string(arguments) + " arguments, not " +
                        std::to_string(call.operands.size()));
        for (const auto& [name, value] : call.keywords)
            if (std::ranges::find(keywords, name) == keywords.end())
                throw FormulaError(formula_, value.position, call.text + " takes no keyword " + name);
    }

    static const Expression* keyword(const Expression& call, std::string_view name)
    {
        for (const auto& [given, value] : call.keywords)
            if (given == name)
                return &value;
        return nullptr;
    }

    /// The axis that a call names, or the one it has unless named.
    std::size_t axis_or(const Expression& call, std::size_t rank, std::optional<std::ptrdiff_t> otherwise) const
    {
        if (const Expression* axis = keyword(call, "axis"))
            return axis_of(*axis, rank);
        if (!otherwise)
            throw Error(call.text + " must say along which axis: axis=0");
        if (rank == 0)
            throw Error(call.text + " wants an axis, not a single number");
        return static_cast<std::size_t>(*otherwise + static_cast<std::ptrdiff_t>(rank));
    }

    std::string_view formula_;
    const Lookup& lookup_;
    Rounding rounding_;
};

} // namespace

Evaluated evaluate(std::string_view formula, const Lookup& lookup, double roundoff)
{
    const Cells cells = Evaluator(formula, lookup, roundoff).evaluate(parse_formula(formula));
    Evaluated evaluated{{cells.shape, {}, cells.truth ? ElementType::boolean : ElementType::real}, {}};
    for (const Rounded& cell : cells.cells) {
        evaluated.value.values.push_back(cell.value);
        evaluated.error.push_back(cell.error);
    }
    return evaluated;
}

} // namespace attn
