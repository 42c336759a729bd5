#include "exercise_report.hpp"

#include "attn/diff/diff.hpp"
#include "attn/formula/explain.hpp"
#include "attn/formula/expression.hpp"
#include "attn/formula/recompute.hpp"
#include "attn/show/console.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <sstream>

namespace attn {
namespace {

constexpr int decimals = 4;
constexpr std::size_t few = 16;     // numbers that fit a line
constexpr std::size_t printed = 64; // of an argument; of a larger one the shape

std::string indented(const std::string& text)
{
    std::string result;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
        result += "  " + line + "\n";
    return result;
}

/// The largest number of a reference: rounding is as large as what a result came from.
double largest_of(const Recording& reference)
{
    double largest = 1;
    for (const Step& step : reference.steps)
        for (const double value : step.value.values)
            if (std::isfinite(value))
                largest = std::max(largest, std::abs(value));
    return largest;
}

/// The place of the first number that differs.
std::size_t first_difference(const Array& found, const Array& expected,
                             const Recording& reference)
{
    const double tolerance = 1e-12 * largest_of(reference);
    const auto close = [&](double a, double b) {
        return a == b || std::abs(a - b) <= tolerance;
    };
    const auto [at, _] = std::ranges::mismatch(found.values, expected.values, close);
    return static_cast<std::size_t>(at - found.values.begin());
}

/// The numbers as rows of text, without the space that aligns them.
std::vector<std::string> rows_of(const Array& array)
{
    const std::size_t columns = array.rank() == 0 ? 1 : array.shape.back();
    const std::size_t rows = columns == 0 ? 0 : array.size() / columns;
    const Array flat{{rows, columns}, array.values, array.type};
    std::istringstream lines(show::format_values(
        flat, {.precision = decimals, .widest = std::max({few, rows, columns})}));
    std::vector<std::string> texts;
    for (std::string line; std::getline(lines, line);)
        texts.push_back(line);
    return texts;
}

/// "[2, 4, 4]", or "2" for a single number; one row only.
std::string in_line(const Array& array)
{
    if (array.size() == 0)
        return "nothing";
    if (array.size() > few)
        return fmt::format("{} numbers", array.size());
    std::istringstream words(
        rows_of({{1, array.size()}, array.values, array.type}).front());
    const std::vector<std::string> numbers{std::istream_iterator<std::string>(words), {}};
    return array.rank() == 0 ? numbers.front()
                             : fmt::format("[{}]", fmt::join(numbers, ", "));
}

/// Rows, each with its name: "weights[0]   0.5000  0.5000".
std::string as_table(const std::string& name, const Array& array)
{
    Shape outer = array.shape;
    outer.pop_back();
    std::string text;
    std::size_t row = 0;
    for (const std::string& numbers : rows_of(array))
        text +=
            fmt::format("  {}{}  {}\n", name, bracketed(index_at(row++, outer)), numbers);
    return text;
}

bool is_unwritten(const Array& found)
{
    return std::ranges::all_of(found.values, [](double value) { return value == 0; });
}

/// Where each expected row sums to 1 and one that was found doesn't: that row and its
/// sum.
std::string wrong_sum(const WrongResult& wrong)
{
    const Array& expected = wrong.expected.value;
    if (expected.rank() == 0 || expected.shape.back() < 2 ||
        wrong.found.shape != expected.shape || is_unwritten(wrong.found))
        return "";
    const auto columns = static_cast<std::ptrdiff_t>(expected.shape.back());
    for (auto right = expected.values.begin(), mine = wrong.found.values.begin();
         right != expected.values.end(); right += columns, mine += columns) {
        if (std::abs(std::accumulate(right, right + columns, 0.0) - 1) > 1e-9)
            return "";
        const double sum = std::accumulate(mine, mine + columns, 0.0);
        if (!(std::abs(sum - 1) <= 1e-6))
            return expected.rank() == 1
                       ? fmt::format(", which sums to {:.4g} instead of 1", sum)
                       : fmt::format("Row {} of yours sums to {:.4g} instead of 1.\n",
                                     (mine - wrong.found.values.begin()) / columns, sum);
    }
    return "";
}

/// Expected and found, in a line or one below the other.
std::string both(const WrongResult& wrong)
{
    const Array& expected = wrong.expected.value;
    const bool fits_line = expected.rank() < 2 && wrong.found.rank() < 2;
    if (fits_line || (expected.size() == 1 && wrong.found.size() == 1))
        return fmt::format(": expected {}, yours gave {}{}.\n", in_line(expected),
                           in_line(wrong.found), wrong_sum(wrong));
    if (wrong.found.shape != expected.shape)
        return fmt::format(": expected the shape {}, yours gave {}.\n",
                           to_string(expected.shape), to_string(wrong.found.shape));
    return fmt::format(".\nexpected:\n{}yours gave:\n{}{}",
                       as_table(wrong.expected.path, expected),
                       as_table(wrong.expected.path, wrong.found), wrong_sum(wrong));
}

/// "[[1, 2], [3, 4]]", "[2, 4]" or "2", as NumPy reads it.
std::string nested(const Array& array)
{
    std::vector<std::string> parts;
    if (array.rank() < 2) {
        if (array.rank() == 0 || array.size() == 0)
            return array.size() == 0 ? "[]" : exact_text(array.values.front());
        for (const double value : array.values)
            parts.push_back(exact_text(value));
    } else {
        const Shape inner(array.shape.begin() + 1, array.shape.end());
        const std::size_t size = element_count(inner);
        for (std::size_t i = 0; i < array.shape.front(); ++i) {
            const auto first =
                array.values.begin() + static_cast<std::ptrdiff_t>(i * size);
            parts.push_back(nested(
                {inner, {first, first + static_cast<std::ptrdiff_t>(size)}, array.type}));
        }
    }
    return fmt::format("[{}]", fmt::join(parts, ", "));
}

/// "It was called with scores = [2, 4, 4] and keys = [[0, 1], [4, 4]]."
std::string called_with(const WrongResult& wrong)
{
    std::vector<std::string> texts;
    for (const Argument& argument : wrong.call.arguments) {
        if (argument.is_weights())
            continue;
        const Array& array = argument.arrays.begin()->second;
        texts.push_back(array.size() <= printed
                            ? fmt::format("{} = {}", argument.name, nested(array))
                            : fmt::format("{} of the shape {}", argument.name,
                                          to_string(array.shape)));
    }
    const std::string& per = wrong.call.per;
    const bool is_repeated = !per.empty() && wrong.file.ends_with(".cpp");
    return fmt::format("It was called {}with {}.\n",
                       is_repeated ? "once per " + per + ", " : "",
                       fmt::join(texts, ", "));
}

/// The same without formulas and names, which would say how it is written.
void keep_numbers(formula::Explanation& explanation)
{
    explanation.formula.clear();
    explanation.names = explanation.numbers;
    for (formula::Explanation& part : explanation.parts)
        keep_numbers(part);
}

/// How the reference computes one number; where that is a number of an earlier step, how
/// the earlier one was computed, too.
formula::Explanation arithmetic(const WrongResult& wrong, std::size_t offset)
{
    formula::ExplainOptions options{.digits = decimals + 2};
    formula::Explanation explanation =
        formula::explain(wrong.reference, wrong.expected, offset, options);
    if (explanation.cells.size() == 1) {
        options.depth = 1;
        explanation = formula::explain(wrong.reference, wrong.expected, offset, options);
    }
    return explanation;
}

/// The first number that differs; a function that is not written yet has none.
struct FirstCell {
    std::string text;
    std::string numbers;    ///< how the reference computes it
    std::string names = {}; ///< the same, with the names of what it is made of
};

FirstCell first_cell(const WrongResult& wrong)
{
    const Array& expected = wrong.expected.value;
    if (wrong.found.rank() != expected.rank() ||
        (wrong.found.shape != expected.shape && expected.rank() != 1))
        return {};
    const std::size_t offset = first_difference(wrong.found, expected, wrong.reference);
    if (offset == expected.size())
        return {fmt::format("The first {} are right.\n", offset), ""};
    std::string numbers, names;
    if (!wrong.expected.formula.empty()) {
        formula::Explanation explanation = arithmetic(wrong, offset);
        names = indented(formula::to_text(explanation));
        keep_numbers(explanation);
        numbers = "The arithmetic:\n" + indented(formula::to_text(explanation));
    }
    if (offset == wrong.found.size())
        return {fmt::format("The first number that is missing is {}[{}].\n",
                            wrong.expected.path, offset),
                numbers, names};
    const double right = expected.values[offset], mine = wrong.found.values[offset];
    const bool looks_same = std::abs(right - mine) < 0.001;
    const auto text = [&](double value) {
        return looks_same ? exact_text(value) : in_line({{}, {value}, expected.type});
    };
    std::string result;
    if (expected.size() > 1)
        result = fmt::format(
            "The first number that differs is {}{}: expected {}, yours gave {}.\n",
            wrong.expected.path, bracketed(index_at(offset, expected.shape)), text(right),
            text(mine));
    else if (looks_same)
        result = fmt::format("In full: expected {}, yours gave {}.\n", text(right),
                             text(mine));
    return {result, numbers, names};
}

/// The formulas of a step and of those before it in its scope that it follows from. What
/// a part gives, such as norm1.output, stands for the part.
std::string formulas_of(const WrongResult& wrong)
{
    const formula::StepNames names(wrong.reference);
    const auto& steps = wrong.reference.steps;
    const std::string& path = wrong.expected.path;
    const std::string scope = path.substr(0, path.rfind('.') + 1);
    std::set<std::size_t> used{names.find(path).value()};
    for (auto step = used.rbegin(); step != used.rend(); ++step)
        for (const formula::UsedName& name : formula::names_in(steps[*step].formula))
            if (const auto operand = names.resolve(*step, name.name);
                operand && !steps[*operand].formula.empty() &&
                steps[*operand].path.find('.', scope.size()) == std::string::npos)
                used.insert(*operand);
    std::string text;
    for (const std::size_t step : used)
        text += fmt::format("  {} = {}\n", steps[step].path, steps[step].formula);
    return text;
}

bool is_product(const Step& step)
{
    const formula::Expression root = formula::parse_formula(step.formula);
    return root.kind == formula::Expression::Kind::binary && root.text == "@";
}

/// What gives the numbers that were found where one product of the reference is another.
class OtherProducts {
public:
    explicit OtherProducts(const WrongResult& wrong)
        : wrong_(wrong),
          run_(wrong.reference),
          last_(run_.names().find(wrong.expected.path).value())
    {
    }

    /// @param other  by a product's formula, what else it could be
    /// @return the sentence of the first that gives what was found; or nothing
    std::string find(const std::function<std::map<std::string, std::string>(
                         const std::string& formula)>& other) const
    {
        const auto& steps = wrong_.reference.steps;
        for (std::size_t step = 0; step <= last_; ++step)
            if (!steps[step].formula.empty() && is_product(steps[step]))
                for (const auto& [formula, sentence] : other(steps[step].formula))
                    if (gives_what_was_found(step, formula))
                        return fmt::format("Your {} {}\n", steps[step].path, sentence);
        return "";
    }

private:
    bool gives_what_was_found(std::size_t step, const std::string& formula) const
    {
        try {
            const auto arrays = run_.with({.formulas = {{step, formula}}}, last_);
            const auto found = arrays.find(last_);
            return found != arrays.end() &&
                   is_same(wrong_.found, found->second, wrong_.reference);
        } catch (const formula::FormulaError&) {
            return false; // the shapes don't fit
        }
    }

    const WrongResult& wrong_;
    formula::Recomputation run_;
    std::size_t last_;
};

/// A product that is divided by the root of a size of what the function was given, where
/// the reference takes no root.
std::string needless_scale(const WrongResult& wrong)
{
    const auto& steps = wrong.reference.steps;
    if (std::ranges::any_of(steps, [](const Step& step) {
            return step.formula.find("sqrt(") != std::string::npos;
        }))
        return "";
    std::set<std::size_t> sizes;
    for (const Argument& argument : wrong.call.arguments)
        for (const auto& [_, array] : argument.arrays)
            if (array.rank() > 0 && array.shape.back() > 1)
                sizes.insert(array.shape.back());
    return OtherProducts(wrong).find([&](const std::string& formula) {
        std::map<std::string, std::string> scaled;
        for (const std::size_t size : sizes)
            scaled.emplace(
                fmt::format("({}) / sqrt({})", formula, size),
                fmt::format("is divided by sqrt({}), the root of the number of "
                            "features. Nothing is to be scaled here.",
                            size));
        return scaled;
    });
}

/// A product of two names whose rows were taken for columns.
std::string swapped_axes(const WrongResult& wrong)
{
    return OtherProducts(wrong).find([](const std::string& formula) {
        std::map<std::string, std::string> swapped;
        const std::size_t at = formula.find(" @ ");
        if (at == std::string::npos ||
            formula.find_first_of("@([", at + 3) != std::string::npos ||
            formula.find_first_of("([") < at)
            return swapped;
        const auto other = [](const std::string& operand) {
            return operand.ends_with(".T") ? operand.substr(0, operand.size() - 2)
                                           : operand + ".T";
        };
        const auto name = [](const std::string& operand) {
            return operand.substr(0, operand.rfind(".T"));
        };
        const std::string left = formula.substr(0, at), right = formula.substr(at + 3);
        const auto said = [&](const std::string& operand) {
            return fmt::format(
                "has columns of {} where rows are wanted: a token is a row.",
                name(operand));
        };
        swapped.emplace(other(left) + " @ " + right, said(left));
        swapped.emplace(left + " @ " + other(right), said(right));
        return swapped;
    });
}

/// Where what was found has an axis more, and its sum along that axis is right: products
/// that were not added.
std::string missing_sum(const WrongResult& wrong)
{
    const Array& found = wrong.found;
    if (found.rank() != wrong.expected.value.rank() + 1)
        return "";
    for (std::size_t axis = 0; axis < found.rank(); ++axis) {
        const Array sum = formula::evaluate(fmt::format("sum(found, axis={})", axis),
                                            [&](std::string_view) { return &found; })
                              .value;
        if (is_same(sum, wrong.expected.value, wrong.reference))
            return fmt::format("Its sum along axis {} would be right: the products are "
                               "not added. @ multiplies and adds, * only multiplies.\n",
                               axis);
    }
    return "";
}

/// What gives the numbers that were found.
void name_mistake(const WrongResult& wrong, Hints& hints)
{
    const Array& expected = wrong.expected.value;
    hints.what += missing_sum(wrong);
    const bool is_mask = expected.type == ElementType::boolean && expected.rank() == 2;
    if (expected.type != ElementType::real && !is_mask)
        return; // many mistakes give the same few whole numbers
    if (const std::string scale = needless_scale(wrong); !scale.empty()) {
        hints.what += scale;
        return;
    }
    const diff::Diff compared = diff::compare(
        wrong.reference, files::NamedArrays{{wrong.expected.path, wrong.found}});
    if (compared.passed() && compared.type != NumberType::float64) {
        hints.what += fmt::format(
            "All digits that {} has are right: compute in float64, double in C++.\n",
            name_of(compared.type));
        return;
    }
    for (const diff::Diagnosis& diagnosis : diff::diagnose(compared)) {
        if (diagnosis.is_alternative)
            continue;
        const mistakes::Pitfall& mistake = *diagnosis.pitfall;
        if (hints.mistake == nullptr)
            hints.mistake = &mistake;
        hints.step += fmt::format("Look at the step {}. {}\n",
                                  diagnosis.steps.front()->path, mistake.why);
        hints.line += fmt::format(
            "{} = {} where {} is right\n  seen: {}\n", diagnosis.steps.front()->path,
            diagnosis.formulas.front(), diagnosis.steps.front()->formula, mistake.link);
    }
    if (hints.mistake != nullptr)
        return;
    const std::string swapped = swapped_axes(wrong);
    const diff::StepDiff* first = compared.first_wrong();
    hints.what += swapped;
    if (swapped.empty() && first != nullptr && !first->layout.empty())
        hints.what += fmt::format("Your result {}.\n", first->layout);
}

/// Where lines that are right stand, of an exercise in the repository.
std::string solved_in(const std::string& file)
{
    const std::filesystem::path path(file);
    if (!file.starts_with("lessons/"))
        return "";
    return fmt::format("Lines that are right: tests/exercises/{}{}\n",
                       path.parent_path().filename().string(), path.extension().string());
}

} // namespace

bool is_same(const Array& found, const Array& expected, const Recording& reference)
{
    return found.shape == expected.shape &&
           first_difference(found, expected, reference) == expected.size();
}

Hints hints_on(const WrongResult& wrong)
{
    const std::string name = wrong.call.function +
                             (wrong.call.result.empty() ? "" : "'s " + wrong.call.result);
    const bool is_written = !is_unwritten(wrong.found);
    const FirstCell cell = first_cell(wrong);
    Hints hints;
    hints.what =
        fmt::format("{} is {}{}{}", name, is_written ? "wrong" : "not written yet",
                    both(wrong), called_with(wrong));
    if (is_written) {
        hints.what += cell.text;
        name_mistake(wrong, hints);
    } else {
        hints.what += fmt::format("Write it in {}{}\n", wrong.file,
                                  wrong.call.task.empty() ? "." : ": " + wrong.call.task);
    }
    hints.step += cell.numbers;
    if (!wrong.expected.formula.empty() && wrong.call.task.empty())
        hints.line += "The formulas:\n" + formulas_of(wrong) +
                      (cell.names.empty() ? "" : "so that\n" + cell.names);
    hints.line += solved_in(wrong.file);
    return hints;
}

std::string to_text(const Hints& hints, Stage stage)
{
    std::string text = hints.what;
    if (hints.mistake != nullptr)
        text += fmt::format("This looks like a well-known mistake, {}: {}\n",
                            hints.mistake->id, hints.mistake->sentence);
    if (stage != Stage::what)
        text += hints.step;
    if (stage == Stage::line)
        return text + hints.line;
    if (stage == Stage::what && !hints.step.empty())
        return text + "With --hint you see which numbers it is made of.\n";
    return text + (hints.line.empty() ? "" : "With --answer you see the line.\n");
}

} // namespace attn
