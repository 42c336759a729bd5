#include "lesson.hpp"

#include "flags.hpp"

#include "attn/shape.hpp"
#include "attn/trace_io/npz.hpp"
#include "attn/trace_io/recorder.hpp"
#include "attn/trace_io/trace_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <utility>

namespace attn {

class Lesson::Refuted : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

namespace {

std::string names_in(const NamedArrays& arrays)
{
    std::string names;
    for (const auto& [name, array] : arrays)
        names += (names.empty() ? "" : ", ") + name;
    return names.empty() ? "nothing" : names;
}

/// A lesson computes with its inputs straight away: they have the right rank, some numbers, and only finite ones.
void expect_usable(const StepLabel& label, const Array& found)
{
    if (found.rank() != label.axes.size())
        throw Error(fmt::format("{} has the shape {}, expected {} axes, ({})", label.name, to_string(found.shape),
                                label.axes.size(), fmt::join(label.axes, ", ")));
    if (found.type == ElementType::boolean)
        throw Error(label.name + " holds booleans, expected numbers: convert it to float64");
    if (found.size() == 0)
        throw Error(fmt::format("{} has the shape {} and no numbers, expected at least one on every axis", label.name,
                                to_string(found.shape)));
    for (std::size_t offset = 0; offset < found.size(); ++offset)
        if (!std::isfinite(found.values[offset]))
            throw Error(fmt::format("{}[{}] is {}, expected finite numbers", label.name,
                                    fmt::join(index_at(offset, found.shape), ", "), found.values[offset]));
}

/// What is given, in fewer digits where they are asked for; whole numbers stay.
template <Traceable T>
T rounded(T tensor, const std::optional<Precision>& precision)
{
    if constexpr (std::same_as<T, Integers>)
        return tensor;
    else if (precision)
        for (double& value : tensor)
            value = rounded_to(*precision, value);
    return tensor;
}

/// Knows the largest size of any finite number in the steps so far.
class Largest final : public Listener {
public:
    double number = 0;

private:
    std::optional<Array> on_step(const Step& step) override
    {
        for (const double value : step.value.values)
            if (std::isfinite(value))
                number = std::max(number, std::abs(value));
        return std::nullopt;
    }
};

std::string counted(std::size_t count, const std::string& what)
{
    return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

/// Where two arrays differ, in one line; nothing where they don't.
std::string difference_of(const Array& found, const Array& expected, double tolerance)
{
    if (found.shape != expected.shape)
        return fmt::format("expected the shape {}, found {}", to_string(expected.shape), to_string(found.shape));
    const auto close = [&](double a, double b) { return a == b || std::abs(a - b) <= tolerance; };
    const auto [at, _] = std::ranges::mismatch(found.values, expected.values, close);
    if (at == found.values.end())
        return "";
    if (constexpr std::size_t few = 8; found.rank() == 1 && found.size() <= few)
        return fmt::format("expected [{:.4g}], found [{:.4g}]", fmt::join(expected.values, ", "),
                           fmt::join(found.values, ", "));
    const auto offset = static_cast<std::size_t>(at - found.values.begin());
    return fmt::format("expected {:.6g}, found {:.6g} at [{}]", expected.values[offset], found.values[offset],
                       fmt::join(index_at(offset, found.shape), ", "));
}

} // namespace

/// What a lesson runs with, for as long as it runs.
struct Lesson::Setup {
    Setup(std::string_view lesson_topic, const LessonFlags& given)
        : topic(lesson_topic),
          flags(given),
          style(style_of(flags.console)),
          console(standard_output(flags.console), style),
          answers(flags.answers),
          listeners(answers.before({&largest, &console, &recorder})),
          unheard(answers.before({}))
    {
        if (!flags.input.empty())
            input = read_npz(flags.input);
    }

    /// "123 steps, 7 checks, all held"
    std::string summary() const
    {
        return counted(recorder.steps().size(), "step") + ", " + counted(checks, "check") + ", " +
               (not_held == 0 ? "all held" : std::to_string(not_held) + " no longer so");
    }

    std::string topic;
    LessonFlags flags;
    ConsoleStyle style;
    Largest largest;
    Recorder recorder;
    ConsoleListener console;
    Answers answers;
    Listeners listeners, unheard;
    std::optional<NamedArrays> input;
    std::size_t checks = 0, not_held = 0;
    bool has_begun = false; ///< something was printed

    /// Where the letter of an axis was first seen; every other axis of that letter has its size.
    struct FirstSeen {
        std::string name;
        Shape shape;
        std::size_t size;
    };
    std::map<std::string, FirstSeen> axes;
};

Lesson::Lesson(Setup& setup)
    : setup_(setup), trace_(setup.listeners), unheard_(setup.flags.answers.any() ? Trace(setup.unheard) : Trace())
{
}

int Lesson::run(std::string_view topic, int argc, char** argv, void (*teach)(Lesson&), std::vector<LessonFlag> own)
{
    const std::string program = std::filesystem::path(argv[0]).filename();
    const auto fail = [&](int code, const std::string& message) {
        fmt::print(stderr, "{}: {}\n", program, message);
        return code;
    };

    LessonFlags flags;
    flags.own = std::move(own);
    if (const std::optional<int> code = read_flags(flags, program, argc, argv))
        return *code;
    if (flags.summary)
        flags.console.quiet = true;

    try {
        Setup setup(topic, flags);
        Lesson lesson(setup);
        try {
            teach(lesson);
        } catch (const Error& error) {
            throw Error(flags.input.empty() ? error.what() : flags.input.string() + ": " + error.what());
        }
        setup.answers.expect_heard();
        if (!flags.trace.empty())
            write_trace(flags.trace, setup.recorder.recording());
        setup.console.flush();
        if (flags.summary)
            fmt::print("{}\n", setup.summary());
        if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
            throw Error("standard output can't be written");
    } catch (const Refuted& error) {
        return fail(1, error.what());
    } catch (const Error& error) {
        return fail(2, error.what());
    }
    return 0;
}

const LessonFlag::Value& Lesson::value_of(std::string_view name) const
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
        throw Error(fmt::format("no array is called {}, expected one with the axes ({}); found {}", label.name,
                                fmt::join(label.axes, ", "), names_in(*setup_.input)));
    expect_usable(label, found->second);
    return found->second;
}

void Lesson::expect_fit(const StepLabel& label, const Shape& shape)
{
    for (std::size_t axis = 0; axis < label.axes.size(); ++axis) {
        const auto [entry, is_first] = setup_.axes.try_emplace(label.axes[axis], label.name, shape, shape[axis]);
        const Setup::FirstSeen& first = entry->second;
        if (first.size != shape[axis])
            throw ShapeError(fmt::format("{} {} and {} {} must agree in {}: {} and {}", first.name,
                                         to_string(first.shape), label.name, to_string(shape), entry->first, first.size,
                                         shape[axis]));
    }
}

template <Traceable T>
T Lesson::input(std::string_view step, const T& example)
{
    const StepLabel label = parse_step_label(step);
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
    return trace_(step, "", rounded(std::move(value), setup_.flags.answers.round));
}

std::filesystem::path Lesson::file(const std::filesystem::path& name) const
{
    return std::filesystem::path(ATTN_LESSONS_FOLDER) / setup_.topic / name;
}

template <Traceable T>
T Lesson::stored(std::string_view step, const std::filesystem::path& name)
{
    if (setup_.input)
        return input(step, T{});
    const std::filesystem::path path = file(name);
    const NamedArrays arrays = read_npz(path);
    const auto found = arrays.find(parse_step_label(step).name);
    if (found == arrays.end())
        throw Error(path.string() + ": has no " + std::string(step) + ", but " + names_in(arrays));
    return input(step, from_array<T>(found->second));
}

bool Lesson::is_example() const { return !setup_.input; }
bool Lesson::is_altered() const { return setup_.flags.answers.any(); }

const Recording& Lesson::recording() const { return setup_.recorder.recording(); }

void Lesson::heading(std::string_view text)
{
    const bool color = setup_.style.color;
    setup_.console.print(fmt::format("{}{}{}{}", std::exchange(setup_.has_begun, true) ? "\n" : "",
                                     color ? "\x1b[1;4m" : "", text, color ? "\x1b[0m" : ""));
}

void Lesson::say(std::string_view text) { setup_.console.print(fmt::format("  {}", text)); }

void Lesson::table(const std::vector<std::string>& columns, const std::vector<std::vector<double>>& rows)
{
    constexpr std::size_t gap = 3;
    std::vector<std::size_t> widths;
    std::vector<std::vector<std::string>> cells(rows.size());
    for (std::size_t column = 0; column < columns.size(); ++column) {
        Array numbers{{rows.size(), 1}, {}};
        for (const std::vector<double>& row : rows)
            numbers.values.push_back(row[column]);
        std::size_t width = columns[column].size();
        std::istringstream lines(format_values(numbers, {.precision = setup_.style.precision, .widest = rows.size()}));
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
        setup_.console.print(line);
    }
}

void Lesson::expect(std::string_view claim, bool is_so)
{
    ++setup_.checks;
    if (!is_so && !is_altered())
        throw Refuted("not so: " + std::string(claim));
    setup_.not_held += is_so ? 0 : 1;
    setup_.console.print(fmt::format("  [{}] {}", is_so ? "checked" : "no longer so", claim));
}

template <Traceable T>
void Lesson::expect_equal(std::string_view claim, const T& found, const T& expected)
{
    // Rounding is as large as the numbers that a result came from, which may be large where the result is small.
    const double tolerance = 1e-12 * std::max(1.0, setup_.largest.number);
    const std::string difference = difference_of(to_array(found), to_array(expected), tolerance);
    expect(difference.empty() || is_altered() ? std::string(claim) : fmt::format("{}: {}", claim, difference),
           difference.empty());
}

template Vector Lesson::input(std::string_view, const Vector&);
template Integers Lesson::input(std::string_view, const Integers&);
template Matrix Lesson::input(std::string_view, const Matrix&);
template Tensor3 Lesson::input(std::string_view, const Tensor3&);
template Matrix Lesson::stored(std::string_view, const std::filesystem::path&);
template void Lesson::expect_equal(std::string_view, const Vector&, const Vector&);
template void Lesson::expect_equal(std::string_view, const Integers&, const Integers&);
template void Lesson::expect_equal(std::string_view, const Matrix&, const Matrix&);
template void Lesson::expect_equal(std::string_view, const Tensor3&, const Tensor3&);

} // namespace attn
