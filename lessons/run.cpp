#include "setup.hpp"

#include "attn/trace_io/trace_file.hpp"

#include <cstdio>

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
    const auto fail = [&](int code, const std::string& message) {
        std::fprintf(stderr, "%s: %s\n", program.c_str(), message.c_str());
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
            throw Error(flags.input.empty() ? error.what()
                                            : flags.input.string() + ": " + error.what());
        }
        setup.answers.expect_heard();
        if (!flags.trace.empty())
            write_trace(flags.trace, setup.recorder.recording());
        setup.console.flush();
        if (flags.summary)
            std::puts(
                summary_of(setup.recorder.steps().size(), setup.checks, setup.not_held)
                    .c_str());
        if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
            throw Error("standard output can't be written");
    } catch (const Refuted& error) {
        return fail(1, error.what());
    } catch (const Error& error) {
        return fail(2, error.what());
    }
    return 0;
}

} // namespace attn
