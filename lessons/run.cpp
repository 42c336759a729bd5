#include "setup.hpp"

#include "attn/cli/flags.hpp"
#include "attn/cli/print_escaped.hpp"
#include "attn/files/trace_file.hpp"
#include "attn/formula/overflow.hpp"

namespace attn {
namespace {

std::string counted(std::size_t count, const std::string& what)
{
    return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

/// "123 steps, 7 checks, all held"
std::string summary_of(std::size_t steps, std::size_t checks, std::size_t not_held)
{
    return counted(steps, "step") + ", " + counted(checks, "check") + ", " +
           (not_held == 0 ? "all held" : std::to_string(not_held) + " no longer so");
}

/// What is said where numbers overflow, unless the user asked for a mistake that makes them.
std::optional<std::string> overflow_in(const Recording& recording,
                                       const std::vector<std::string>& meant,
                                       const LessonFlags& flags)
{
    const auto overflow = formula::find_overflow(recording, meant);
    if (!overflow || !flags.interventions.pitfall.empty())
        return std::nullopt;
    return (flags.input.empty() ? "" : flags.input.string() + ": ") +
           formula::to_text(*overflow);
}

} // namespace

int Lesson::run(std::string_view topic, int argc, char** argv, void (*teach)(Lesson&),
                std::vector<LessonFlag> own)
{
    const std::string program = std::filesystem::path(argv[0]).filename();
    LessonFlags flags;
    flags.own = std::move(own);
    if (const std::optional<int> code = read_flags(flags, program, argc, argv))
        return *code;
    if (flags.summary)
        flags.console.quiet = true;

    const auto name = [&] { return program; };
    return cli::guarded(name, [&] {
        Setup setup(topic, flags);
        Lesson lesson(setup);
        const auto overflow_of_run = [&] {
            return overflow_in(setup.recorder.recording(), setup.meant_to_overflow,
                               flags);
        };
        try {
            teach(lesson);
        } catch (const Refuted& error) {
            if (const auto overflow = overflow_of_run())
                throw Error(*overflow);
            cli::print_error(program, error);
            return 1;
        } catch (const Error& error) {
            if (flags.input.empty())
                throw;
            throw Error(flags.input.string() + ": " + error.what());
        }
        setup.interventions.expect_effect();
        if (const auto overflow = overflow_of_run())
            cli::print_error(program, Error("warning: " + *overflow));
        if (!flags.trace.empty())
            files::write_trace(flags.trace, setup.recorder.recording());
        setup.console.flush();
        if (flags.summary)
            cli::print("{}\n", summary_of(setup.recorder.steps().size(), setup.checks,
                                          setup.not_held));
        files::expect_delivered();
        return 0;
    });
}

} // namespace attn
