#include "setup.hpp"

#include "attn/cli/flags.hpp"
#include "attn/cli/print_escaped.hpp"
#include "attn/files/trace_file.hpp"

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
        const Ending ending = lesson.follow(teach);
        if (!ending.refuted.empty()) {
            cli::print_error(program, Error(ending.refuted));
            return 1;
        }
        if (!ending.overflow.empty())
            cli::print_error(program, Error("warning: " + ending.overflow));
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
