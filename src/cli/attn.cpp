// The attn program: what can be done with lessons and traces from a shell.
//
// Exit codes: 0 success, 1 the check failed, 2 wrong usage or unusable input.

#include "diff.hpp"
#include "explain.hpp"
#include "pitfalls.hpp"
#include "run.hpp"
#include "view.hpp"

#include "attn/error.hpp"
#include "attn/formula/verify.hpp"
#include "attn/trace_io/trace_file.hpp"

#include "lessons/curriculum.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

namespace {

using namespace attn;

int list_lessons()
{
    std::optional<Part> part;
    for (const CurriculumEntry& lesson : curriculum()) {
        if (part != lesson.part)
            fmt::print("{}\n\n", title_of(lesson.part));
        part = lesson.part;
        fmt::print("{:<22}  {}\n{:<22}  {}\n", lesson.topic, lesson.title, "", lesson.idea);
        if (!lesson.needs.empty())
            fmt::print("{:<22}  builds on lesson {}\n", "", fmt::join(lesson.needs, ", "));
        fmt::print("\n");
    }
    fmt::print("Run one: lesson_{} --help\n", curriculum().front().topic);
    return 0;
}

int verify_trace(const std::filesystem::path& path)
{
    const Verification verification = verify(read_trace(path));
    if (verification.inputs() == verification.checks.size())
        throw Error(path.string() + ": no step has a formula, so there is nothing to recompute");
    for (const StepCheck& check : verification.checks)
        if (!check.passed())
            fmt::print("{}\n", check.message);

    fmt::print("{}: {} steps recomputed from their formulas, {} inputs, {} wrong\n", path.string(),
               verification.recomputed(), verification.inputs(), verification.failures());
    return verification.passed() ? 0 : 1;
}

std::function<int()> add_lessons_command(CLI::App& app)
{
    app.add_subcommand("lessons", "the lessons, with what builds on what");
    return list_lessons;
}

std::function<int()> add_verify_command(CLI::App& app)
{
    CLI::App* command = app.add_subcommand("verify", "recompute every step of a trace from its formula");
    const auto trace = std::make_shared<std::filesystem::path>();
    command->add_option("TRACE.npz", *trace, "as a lesson's --trace wrote it")->required();
    return [trace] { return verify_trace(*trace); };
}

int run(int argc, char** argv)
{
    CLI::App app("Attention and the Transformer, step by step.", "attn");
    app.require_subcommand(1);
    app.set_version_flag("--version", ATTN_VERSION);
    const std::map<std::string, std::function<int()>> commands{
        {"lessons", add_lessons_command(app)},
        {"run", add_run_command(app)},
        {"verify", add_verify_command(app)},
        {"explain", add_explain_command(app)},
        {"diff", add_diff_command(app)},
        {"view", add_view_command(app)},
        {"pitfalls", add_pitfalls_command(app)},
    };

    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success))
            return app.exit(error);
        fmt::print(stderr, "attn: {} (see attn --help)\n", error.what());
        return 2;
    }
    return commands.at(app.get_subcommands().front()->get_name())();
}

} // namespace

int main(int argc, char** argv)
{
    try {
        const int code = run(argc, argv);
        if (std::fflush(stdout) != 0)
            throw Error("standard output can't be written");
        return code;
    } catch (const Error& error) {
        fmt::print(stderr, "attn: {}\n", error.what());
    } catch (const std::system_error& error) { // fmt's, where a buffer can't be written
        fmt::print(stderr, "attn: standard output can't be written: {}\n", error.what());
    }
    return 2;
}
