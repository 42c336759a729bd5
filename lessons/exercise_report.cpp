#include "exercise_report.hpp"

#include "attn/diff/diff.hpp"
#include "attn/formula/explain.hpp"
#include "attn/show/console.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
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

/// How the reference computes one number; where that is a number of an earlier step, how
/// the earlier one was computed, too.
std::string arithmetic(const WrongResult& wrong, std::size_t offset)
{
    formula::ExplainOptions options{.digits = decimals + 2};
    formula::Explanation explanation =
        formula::explain(wrong.reference, wrong.expected, offset, options);
    if (explanation.cells.size() == 1) {
        options.depth = 1;
        explanation = formula::explain(wrong.reference, wrong.expected, offset, options);
    }
    return formula::to_text(explanation);
}

/// The first number that differs, and how the reference computes it.
std::string first_cell(const WrongResult& wrong)
{
    const Array& expected = wrong.expected.value;
    if (wrong.found.rank() != expected.rank() ||
        (wrong.found.shape != expected.shape && expected.rank() != 1))
        return "";
    const std::size_t offset = first_difference(wrong.found, expected, wrong.reference);
    if (offset == expected.size())
        return fmt::format("The first {} are right.\n", offset);
    const std::string formula =
        wrong.expected.formula.empty()
            ? ""
            : "The arithmetic:\n" + indented(arithmetic(wrong, offset));
    if (offset == wrong.found.size())
        return fmt::format("The first number that is missing is {}[{}].\n{}",
                           wrong.expected.path, offset, formula);
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
    return result + formula;
}

/// The well-known mistakes that give what was found, or how the right numbers are laid
/// out otherwise.
std::string likely_mistakes(const WrongResult& wrong)
{
    const Array& expected = wrong.expected.value;
    const bool is_mask = expected.type == ElementType::boolean && expected.rank() == 2;
    if (expected.type != ElementType::real && !is_mask)
        return ""; // many mistakes give the same few whole numbers
    const diff::Diff compared = diff::compare(
        wrong.reference, files::NamedArrays{{wrong.expected.path, wrong.found}});
    if (compared.passed() && compared.type != NumberType::float64)
        return fmt::format(
            "All digits that {} has are right: compute in float64, double in C++.\n",
            name_of(compared.type));
    std::string text;
    for (const diff::Diagnosis& diagnosis : diff::diagnose(compared))
        if (!diagnosis.is_alternative)
            text +=
                fmt::format("This looks like a well-known mistake, {}: {} {}\n  {} = {} "
                            "where {} is right\n  seen: {}\n",
                            diagnosis.pitfall->id, diagnosis.pitfall->sentence,
                            diagnosis.pitfall->why, diagnosis.steps.front()->path,
                            diagnosis.formulas.front(), diagnosis.steps.front()->formula,
                            diagnosis.pitfall->link);
    const diff::StepDiff* first = compared.first_wrong();
    if (text.empty() && first != nullptr && !first->layout.empty())
        return fmt::format("Your result {}.\n", first->layout);
    return text;
}

} // namespace

bool is_same(const Array& found, const Array& expected, const Recording& reference)
{
    return found.shape == expected.shape &&
           first_difference(found, expected, reference) == expected.size();
}

std::string report(const WrongResult& wrong)
{
    const std::string name = wrong.call.function +
                             (wrong.call.result.empty() ? "" : "'s " + wrong.call.result);
    const std::string arguments = called_with(wrong);
    if (is_unwritten(wrong.found)) {
        const std::string hint =
            !wrong.call.task.empty() ? ": " + wrong.call.task
            : wrong.with_hint
                ? fmt::format(": {} = {}", wrong.expected.path, wrong.expected.formula)
                : "; with --hint you see its formula";
        return fmt::format("{} is not written yet{}{}{}Write it in {}{}\n", name,
                           both(wrong), arguments,
                           wrong.with_hint ? first_cell(wrong) : "", wrong.file, hint);
    }
    return fmt::format("{} is wrong{}{}{}{}", name, both(wrong), arguments,
                       first_cell(wrong), likely_mistakes(wrong));
}

} // namespace attn
