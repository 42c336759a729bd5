#include "lesson.hpp"

#include "setup.hpp"

#include "attn/core/shape.hpp"
#include "attn/core/utf8.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include <unistd.h>

namespace attn {

namespace {

std::string names_in(const files::NamedArrays& arrays)
{
    std::string names;
    for (const auto& [name, array] : arrays)
        names += (names.empty() ? "" : ", ") + name;
    return names.empty() ? "nothing" : names;
}

/// A lesson computes with its inputs straight away: they have the right rank, some
/// numbers, and only finite ones.
void expect_usable(const StepLabel& label, const Array& found)
{
    if (found.rank() != label.axes.size())
        throw Error(fmt::format("{} has the shape {}, expected {} axes, ({})", label.name,
                                to_string(found.shape), label.axes.size(),
                                fmt::join(label.axes, ", ")));
    if (found.type == ElementType::boolean)
        throw Error(label.name +
                    " holds booleans, expected numbers: convert it to float64");
    if (found.size() == 0)
        throw Error(fmt::format(
            "{} has the shape {} and no numbers, expected at least one on every axis",
            label.name, to_string(found.shape)));
    for (std::size_t offset = 0; offset < found.size(); ++offset)
        if (!std::isfinite(found.values[offset]))
            throw Error(fmt::format("{}{} is {}, expected finite numbers", label.name,
                                    bracketed(index_at(offset, found.shape), ", "),
                                    found.values[offset]));
}

/// What is given, in fewer digits where they are asked for; whole numbers stay.
template <Traceable T>
T rounded(T tensor, const std::optional<mistakes::Precision>& precision)
{
    if constexpr (std::same_as<T, Integers>)
        return tensor;
    else if (precision)
        for (double& value : tensor)
            value = rounded_to(*precision, value);
    return tensor;
}

/// Where two arrays differ, in one line; nothing where they don't.
std::string difference_of(const Array& found, const Array& expected, double tolerance)
{
    if (found.shape != expected.shape)
        return fmt::format("expected the shape {}, found {}", to_string(expected.shape),
                           to_string(found.shape));
    const auto close = [&](double a, double b) {
        return a == b || std::abs(a - b) <= tolerance;
    };
    const auto [at, _] = std::ranges::mismatch(found.values, expected.values, close);
    if (at == found.values.end())
        return "";
    if (constexpr std::size_t few = 8; found.rank() == 1 && found.size() <= few)
        return fmt::format("expected [{:.4g}], found [{:.4g}]",
                           fmt::join(expected.values, ", "),
                           fmt::join(found.values, ", "));
    const auto offset = static_cast<std::size_t>(at - found.values.begin());
    return fmt::format("expected {:.6g}, found {:.6g} at {}", expected.values[offset],
                       found.values[offset],
                       bracketed(index_at(offset, found.shape), ", "));
}

} // namespace

Lesson::Lesson(Setup& setup)
    : setup_(setup),
      trace_(setup.listeners),
      unrecorded_(setup.is_altered ? Trace(setup.unrecorded) : Trace())
{
}

const LessonFlag::Value& Lesson::flag_called(std::string_view name) const
{
    const auto found = std::ranges::find(setup_.flags.own, name, &LessonFlag::name);
    if (found == setup_.flags.own.end())
        throw std::logic_error("lesson: there is no flag " + std::string(name));
    return found->value;
}

Array Lesson::from_user(const StepLabel& label) const
{
    const auto found = setup_.input->find(label.name);
    if (found == setup_.input->end())
        throw Error(fmt::format(
            "no array is called {}, expected one with the axes ({}); found {}",
            label.name, fmt::join(label.axes, ", "), names_in(*setup_.input)));
    expect_usable(label, found->second);
    return found->second;
}

void Lesson::expect_fit(const StepLabel& label, const Shape& shape)
{
    for (std::size_t axis = 0; axis < label.axes.size(); ++axis) {
        const auto [entry, is_first] = setup_.axes.try_emplace(
            label.axes[axis], Setup::FirstSeen{label.name, shape, shape[axis]});
        const Setup::FirstSeen& first = entry->second;
        if (first.size != shape[axis])
            throw ShapeError(fmt::format("{} {} and {} {} must agree in {}: {} and {}",
                                         first.name, to_string(first.shape), label.name,
                                         to_string(shape), entry->first, first.size,
                                         shape[axis]));
    }
}

template <Traceable T>
Term<T> Lesson::input(std::string_view step, const T& example)
{
    const StepLabel label = parse_step_label(step);
    setup_.inputs.push_back(label.name);
    T value = example;
    if (setup_.input) {
        const Array given = from_user(label);
        try {
            value = from_array<T>(given);
        } catch (const Error& error) {
            throw Error(label.name + " " + error.what());
        }
    }
    expect_fit(label, shape_of(value));
    return trace_(step, "",
                  Term(rounded(std::move(value), setup_.flags.interventions.round)));
}

std::filesystem::path Lesson::file(const std::filesystem::path& name) const
{
    return std::filesystem::path(ATTN_LESSONS_FOLDER) / setup_.topic / name;
}

template <Traceable T>
Term<T> Lesson::stored(std::string_view step, const std::filesystem::path& name)
{
    if (setup_.input)
        return input(step, T{});
    const std::filesystem::path path = file(name);
    const files::NamedArrays arrays = files::read_npz(path);
    const auto found = arrays.find(parse_step_label(step).name);
    if (found == arrays.end())
        throw Error(path.string() + ": has no " + std::string(step) + ", but " +
                    names_in(arrays));
    return input(step, from_array<T>(found->second));
}

bool Lesson::is_example() const { return !setup_.input; }
bool Lesson::is_altered() const { return setup_.is_altered; }

void Lesson::add_recording(std::string_view scope, const Recording& recording)
{
    const std::string before = std::string(scope) + ".";
    for (Step step : recording.steps) {
        step.path.insert(0, before);
        setup_.listeners.record(step);
    }
    for (const Alias& alias : recording.aliases)
        setup_.listeners.record(Alias{before + alias.path, before + alias.target});
}

const Recording& Lesson::recording() const { return setup_.recorder.recording(); }

void Lesson::heading(std::string_view text)
{
    const bool color = setup_.style.color;
    setup_.console.print(
        fmt::format("{}{}{}{}", std::exchange(setup_.has_begun, true) ? "\n" : "",
                    color ? "\x1b[1;4m" : "", printable(text), color ? "\x1b[0m" : ""));
}

void Lesson::say(std::string_view text)
{
    setup_.console.print(fmt::format("  {}", printable_lines(text)));
}

void Lesson::progress(std::string_view text)
{
    setup_.console.flush();
    std::fflush(stdout);
    if (::isatty(STDERR_FILENO) == 1)
        std::fputs(("\r\x1b[K" + printable(text)).c_str(), stderr);
}

void Lesson::table(const std::vector<std::string>& columns,
                   const std::vector<std::vector<double>>& rows)
{
    constexpr std::size_t gap = 3;
    std::vector<std::size_t> widths;
    std::vector<std::vector<std::string>> cells(rows.size());
    for (std::size_t column = 0; column < columns.size(); ++column) {
        Array numbers{{rows.size(), 1}, {}};
        for (const std::vector<double>& row : rows)
            numbers.values.push_back(row[column]);
        std::size_t width = columns[column].size();
        std::istringstream lines(show::format_values(
            numbers, {.precision = setup_.style.precision, .widest = rows.size()}));
        for (std::vector<std::string>& row : cells) {
            std::getline(lines, row.emplace_back());
            width = std::max(width, row.back().size());
        }
        widths.push_back(width + gap);
    }

    cells.insert(cells.begin(), columns);
    for (const std::vector<std::string>& row : cells) {
        std::string line = " ";
        for (std::size_t column = 0; column < row.size(); ++column)
            line += fmt::format("{:>{}}", row[column], widths[column]);
        setup_.console.print(printable_lines(line));
    }
}

void Lesson::expect_overflow(std::string_view scope)
{
    setup_.meant_to_overflow.emplace_back(scope);
}

void Lesson::expect(std::string_view claim, bool is_so)
{
    ++setup_.checks;
    if (!is_so && !is_altered())
        throw Refuted("not so: " + std::string(claim));
    setup_.not_held += is_so ? 0 : 1;
    setup_.console.print(
        fmt::format("  [{}] {}", is_so ? "checked" : "no longer so", printable(claim)));
}

void Lesson::expect_same(std::string_view claim, const Array& found,
                         const Array& expected)
{
    // Rounding is as large as the numbers that a result came from, which may be large
    // where the result is small.
    const double tolerance = 1e-12 * std::max(1.0, setup_.largest.number);
    const std::string difference = difference_of(found, expected, tolerance);
    expect(difference.empty() || is_altered() ? std::string(claim)
                                              : fmt::format("{}: {}", claim, difference),
           difference.empty());
}

template Term<Vector> Lesson::input(std::string_view, const Vector&);
template Term<Integers> Lesson::input(std::string_view, const Integers&);
template Term<Matrix> Lesson::input(std::string_view, const Matrix&);
template Term<Tensor3> Lesson::input(std::string_view, const Tensor3&);
template Term<Matrix> Lesson::stored(std::string_view, const std::filesystem::path&);

} // namespace attn
