#include "attn/formula/explain.hpp"

#include "agreement.hpp"
#include "attn/formula/scope.hpp"
#include "writer.hpp"

#include "attn/core/step_name.hpp"

#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <unordered_set>

namespace attn::formula {
namespace {

class Explainer {
public:
    Explainer(const Recording& recording, const StepNames& names, const ExplainOptions& options)
        : steps_(recording.steps), names_(names), options_(options)
    {
    }

    Explanation explain(const Step& step, std::size_t offset)
    {
        const auto i = static_cast<std::size_t>(&step - steps_.data());
        return explain(i, offset, options_.depth);
    }

private:
    Explanation explain(std::size_t i, std::size_t offset, std::size_t depth)
    {
        const Step& step = steps_[i];
        if (offset >= step.value.size() || element_count(step.value.shape) != step.value.size())
            throw Error(step.path, " has no number ", offset, " in its shape ", step.value.shape);
        const Shape index = index_at(offset, step.value.shape);
        Explanation explanation;
        explanation.cell = step.path + bracketed(index);
        explanation.formula = step.formula;
        explanation.value = step.value.values[offset];
        explanation.result = result_text(step, explanation.value);
        explained_.insert(explanation.cell);
        if (step.formula.empty()) {
            explanation.notes = {"an input: it has no formula"};
            return explanation;
        }
        try {
            Scalars& scalars = scalars_of(i);
            const Shape& shape = scalars.formula().root().shape;
            if (shape != step.value.shape)
                throw Error(step.formula, " has the shape ", shape, ", and the step ", step.value.shape);
            const Scalar& scalar = scalars.at(offset);
            explanation.error = scalar.value.error;
            write(explanation, scalar, i, depth);
            explanation.cells = cells_in(scalar);
            compare(explanation, step, scalar);
        } catch (const BudgetError& error) {
            throw BudgetError(explanation.cell, ": its explanation ", error.what());
        } catch (const Error& error) {
            throw Error(explanation.cell, " can't be explained: ", error.what());
        }
        return explanation;
    }

    Explanation explain_part(const Scalar& part, std::size_t i, std::size_t depth)
    {
        Explanation explanation;
        explanation.cell = to_text(*part.origin, part.index);
        explanation.value = part.value.value;
        explanation.error = part.value.error;
        explanation.result = number_text(part.value.value, options_);
        write(explanation, part, i, depth);
        return explanation;
    }

    /// The arithmetic, why, and what stands in it by its name only.
    void write(Explanation& explanation, const Scalar& scalar, std::size_t i, std::size_t depth)
    {
        ArithmeticWriter writer(options_);
        explanation.names = writer.with_names(scalar);
        explanation.numbers = writer.with_numbers(scalar);
        explanation.notes = writer.reasons();
        for (const Scalar* written : writer.written()) {
            constexpr std::size_t most = 1000;
            if (explanation.parts.size() >= options_.terms || explained_.size() >= most)
                break;
            if (written->kind == Scalar::Kind::part) {
                // One cell shows how the others of this part of this step's formula come about.
                if (explained_.insert(steps_[i].path + ": " + to_text(*written->origin)).second)
                    explanation.parts.push_back(explain_part(*written, i, depth));
            } else if (depth > 0) {
                const std::size_t operand = by_value_.at(written->array);
                const std::string cell = steps_[operand].path + bracketed(written->index);
                if (!steps_[operand].formula.empty() && !explained_.contains(cell))
                    explanation.parts.push_back(
                        explain(operand, offset_of(written->index, written->array->shape), depth - 1));
            }
        }
    }

    std::vector<Explanation::Cell> cells_in(const Scalar& scalar) const
    {
        std::vector<Explanation::Cell> cells;
        std::unordered_set<const Scalar*> seen;
        std::vector<const Scalar*> left{&scalar};
        while (!left.empty()) {
            const Scalar& next = *left.back();
            left.pop_back();
            if (!seen.insert(&next).second)
                continue;
            if (next.kind == Scalar::Kind::cell)
                cells.push_back({&steps_[by_value_.at(next.array)], offset_of(next.index, next.array->shape)});
            if (next.about != nullptr)
                left.push_back(next.about);
            left.insert(left.end(), next.operands.rbegin(), next.operands.rend()); // taken from the end
        }
        return cells;
    }

    void compare(Explanation& explanation, const Step& step, const Scalar& scalar) const
    {
        const double recorded = explanation.value;
        if (excess(recorded, scalar.value.value, safety * scalar.value.error) <= 1)
            return;
        explanation.value = scalar.value.value;
        explanation.notes.push_back("but the trace has " + explanation.result);
        explanation.result = result_text(step, scalar.value.value);
    }

    std::string result_text(const Step& step, double value) const
    {
        if (step.value.type == ElementType::boolean && (value == 0 || value == 1))
            return value == 1 ? "true" : "false";
        return number_text(value, options_);
    }

    Scalars& scalars_of(std::size_t i)
    {
        std::unique_ptr<Scalars>& scalars = scalars_[i];
        if (scalars == nullptr) {
            const Lookup lookup = [this, i](std::string_view name) -> const Array* {
                const std::optional<std::size_t> found = names_.resolve(i, name);
                if (!found)
                    return nullptr;
                by_value_.emplace(&steps_[*found].value, *found);
                return &steps_[*found].value;
            };
            scalars = std::make_unique<Scalars>(steps_[i].formula, lookup);
        }
        return *scalars;
    }

    const std::vector<Step>& steps_;
    const StepNames& names_;
    const ExplainOptions& options_;
    std::unordered_map<const Array*, std::size_t> by_value_; ///< of the steps that the explained formulas name
    std::map<std::size_t, std::unique_ptr<Scalars>> scalars_;
    std::set<std::string> explained_;
};

// ---------------------------------------------------------------------------------------------------------- the asked

std::string example(const Step& step)
{
    const std::size_t rank = step.value.rank();
    if (rank == 0)
        return "a single number: write " + step.path;
    return "which has the shape " + to_string(step.value.shape) + ": write " + step.path + bracketed(Shape(rank, 0)) +
           (rank > 1 ? ", or " + step.path + bracketed(Shape(rank - 1, 0)) + " for a row" : "");
}

/// The subscripts after a step's name, as a formula reads them.
std::string subscripts_of(std::string_view text)
{
    const std::size_t bracket = text.find('[');
    return bracket == std::string_view::npos ? "" : std::string(text.substr(bracket));
}

bool is_subscripted_name(const Expression& expression)
{
    return expression.kind == Expression::Kind::name ||
           (expression.kind == Expression::Kind::indexed && is_subscripted_name(expression.operands[0]));
}

} // namespace

ExplainedCells find_cells(const Recording& recording, std::string_view text)
{
    const Step& step = recording.steps[find_step(recording, text.substr(0, text.find('[')))];
    const Error no_cell(std::string(text.substr(0, 200)) + " is no cell of " + step.path + ", " + example(step));
    ExplainedCells asked{&step, {}, false};
    try {
        const std::string formula = "x" + subscripts_of(text);
        if (!is_subscripted_name(parse_formula(formula)))
            throw no_cell;
        Scalars cells(formula, [&](std::string_view name) { return name == "x" ? &step.value : nullptr; });
        const Shape& shape = cells.formula().root().shape;
        constexpr std::size_t most = 1000;
        const std::size_t count = element_count(shape);
        if (count > most)
            throw Error(text, " is ", count, " numbers, more than ", most, ", of ", step.path, ", ", example(step));
        asked.is_single = shape.empty();
        for (std::size_t i = 0; i < count; ++i) {
            const Scalar& cell = cells.at(i);
            if (cell.kind != Scalar::Kind::cell)
                throw no_cell;
            asked.offsets.push_back(offset_of(cell.index, step.value.shape));
        }
    } catch (const FormulaError&) {
        throw no_cell;
    }
    return asked;
}

Explanation explain(const Recording& recording, const Step& step, std::size_t offset, const ExplainOptions& options)
{
    return explain(recording, StepNames(recording), step, offset, options);
}

Explanation explain(const Recording& recording, const StepNames& names, const Step& step, std::size_t offset,
                    const ExplainOptions& options)
{
    const BudgetScope budget;
    return Explainer(recording, names, options).explain(step, offset);
}

// ---------------------------------------------------------------------------------------------------------- the lines

namespace {

void append_lines(std::string& text, const Explanation& explanation, const std::string& indent)
{
    const std::string inner = indent + "  ";
    text += indent + (indent.empty() ? "" : "where ") + explanation.cell;
    if (!explanation.formula.empty())
        text += " = " + explanation.formula;
    else if (explanation.names.empty())
        text += " = " + explanation.result;
    text += "\n";
    if (!explanation.names.empty()) {
        if (explanation.names != explanation.numbers && explanation.names != explanation.formula &&
            explanation.names != explanation.result)
            text += inner + "= " + explanation.names + "\n";
        if (explanation.numbers != explanation.result)
            text += inner + "= " + explanation.numbers + "\n";
        text += inner + "= " + explanation.result + "\n";
    }
    for (const std::string& note : explanation.notes)
        text += inner + note + "\n";
    for (const Explanation& part : explanation.parts)
        append_lines(text, part, inner);
}

std::string row_line(const Explanation& explanation)
{
    std::string line = "  " + explanation.cell;
    if (!explanation.names.empty()) {
        if (explanation.numbers != explanation.result)
            line += " = " + explanation.numbers;
        else if (explanation.names != explanation.result)
            line += " = " + explanation.names;
    }
    line += " = " + explanation.result;
    if (explanation.formula.empty() || explanation.notes.empty())
        return line + "\n";
    std::string notes;
    for (const std::string& note : explanation.notes)
        notes += (notes.empty() ? "" : "; ") + note;
    return line + " (" + notes + ")\n";
}

} // namespace

std::string to_text(const Explanation& explanation)
{
    std::string text;
    append_lines(text, explanation, "");
    return text;
}

std::string explain_text(const Recording& recording, std::string_view text, const ExplainOptions& options)
{
    const BudgetScope budget;
    const ExplainedCells asked = find_cells(recording, text);
    if (asked.is_single)
        return to_text(explain(recording, *asked.step, asked.offsets.front(), options));
    ExplainOptions flat = options;
    flat.depth = 0;
    const StepNames names(recording);
    Explainer explainer(recording, names, flat);
    std::string lines = asked.step->path + subscripts_of(text);
    lines += (asked.step->formula.empty() ? ", an input: it has no formula" : " = " + asked.step->formula) + "\n";
    for (const std::size_t offset : asked.offsets)
        lines += row_line(explainer.explain(*asked.step, offset));
    return lines;
}

} // namespace attn::formula
