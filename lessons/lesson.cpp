#include "lesson.hpp"

#include "cli/shared_flags.hpp"

#include "attn/shape.hpp"
#include "attn/what_if/answers.hpp"
#include "attn/trace_io/console.hpp"
#include "attn/trace_io/npz.hpp"
#include "attn/trace_io/recorder.hpp"
#include "attn/trace_io/trace_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>

namespace attn {

class Lesson::Refuted : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

namespace {

/// What the command line asks for.
struct Flags {
    std::filesystem::path trace;
    std::filesystem::path input;
    ConsoleFlags console;
    AnswerFlags answers;
    std::vector<LessonFlag> own;
};

/// A lesson's own flag, and where its value goes.
Flag own_flag(LessonFlag& flag)
{
    const auto target = [](auto& value) -> FlagValue {
        using Value = std::decay_t<decltype(value)>;
        if constexpr (std::same_as<Value, double>)
            return number(value, NumberRange::from_zero);
        else if constexpr (std::same_as<Value, std::optional<std::size_t>>)
            return whole_number(value, 0, std::size_t{1} << 20);
        else
            return value;
    };
    return {flag.name, flag.type, std::visit(target, flag.value), flag.help};
}

std::vector<FlagGroup> describe_flags(Flags& flags)
{
    FlagGroup own{"Of this lesson", {}};
    for (LessonFlag& flag : flags.own)
        own.flags.push_back(own_flag(flag));
    std::vector<FlagGroup> groups{
        {"Files",
         {{"--trace", "FILE.npz", flags.trace, "write every step to this file"},
          {"--input", "FILE.npz", flags.input, "your own numbers in place of the example's"}}},
        what_if_flags(flags.answers),
        screen_flags(flags.console),
    };
    if (!own.flags.empty())
        groups.insert(groups.begin(), std::move(own));
    return groups;
}

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

/// What is given, in fewer digits where they are asked for.
template <Traceable T>
T rounded(T tensor, const std::optional<Precision>& precision)
{
    if constexpr (std::same_as<typename T::value_type, double>)
        for (double& value : tensor)
            value = precision ? rounded_to(*precision, value) : value;
    return tensor;
}

/// The largest size of any finite number in the steps.
double largest_of(const std::vector<Step>& steps)
{
    double largest = 0;
    for (const Step& step : steps)
        for (const double value : step.value.values)
            if (std::isfinite(value))
                largest = std::max(largest, std::abs(value));
    return largest;
}

/// The console, which may look away for a while.
class Screen final : public Listener {
public:
    explicit Screen(ConsoleListener& console) : console_(console) {}

    bool is_on = true;

private:
    std::optional<Array> on_step(const Step& step) override { return is_on ? console_.hear(step) : std::nullopt; }

    ConsoleListener& console_;
};

} // namespace

/// What a lesson runs with, for as long as it runs.
struct Lesson::Setup {
    Setup(std::string_view lesson_topic, const Flags& given)
        : topic(lesson_topic),
          flags(given),
          style(style_of(flags.console)),
          logger(standard_output(flags.console)),
          console(logger, style),
          answers(flags.answers),
          screen(console),
          listeners(answers.before({&recorder, &screen})),
          unheard(answers.before({}))
    {
        if (!flags.input.empty())
            input = read_npz(flags.input);
    }

    std::string topic;
    Flags flags;
    ConsoleStyle style;
    std::shared_ptr<spdlog::logger> logger;
    Recorder recorder;
    ConsoleListener console;
    Answers answers;
    Screen screen;
    Listeners listeners, unheard;
    std::optional<NamedArrays> input;

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
    Flags flags;
    flags.own = std::move(own);
    const auto run_lesson = [&] {
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
        } catch (const Refuted& error) {
            fmt::print(stderr, "{}: {}\n", program, error.what());
            return 1;
        }
        return 0;
    };
    return run_program({.name = program,
                        .summary = "Computes attention step by step and shows every tensor on the way.",
                        .groups = describe_flags(flags),
                        .run = run_lesson},
                       argc, argv);
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
    T value = setup_.input ? from_array<T>(from_user(label)) : example;
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

void Lesson::print_steps(bool are_printed) { setup_.screen.is_on = are_printed; }

void Lesson::heading(std::string_view text)
{
    setup_.logger->info("{}{}{}{}", setup_.recorder.steps().empty() ? "" : "\n", setup_.style.color ? "\x1b[1;4m" : "",
                        text, setup_.style.color ? "\x1b[0m" : "");
}

void Lesson::say(std::string_view text) { setup_.logger->info("  {}", text); }

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
        setup_.logger->info("{}", line);
    }
}

void Lesson::expect(std::string_view claim, bool is_so)
{
    if (!is_so && is_altered()) {
        setup_.logger->info("  [no longer so] {}", claim);
        return;
    }
    if (!is_so)
        throw Refuted("this is claimed but is not so: " + std::string(claim));
    setup_.logger->info("  [checked] {}", claim);
}

template <Traceable T>
void Lesson::expect_equal(std::string_view claim, const T& found, const T& expected)
{
    const Array left = to_array(found);
    const Array right = to_array(expected);
    // Rounding is as large as the numbers that a result came from, which may be large where the result is small.
    const double tolerance = 1e-12 * std::max(1.0, largest_of(setup_.recorder.steps()));
    const auto close = [&](double a, double b) { return a == b || std::abs(a - b) <= tolerance; };
    expect(claim, left.shape == right.shape && std::ranges::equal(left.values, right.values, close));
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
