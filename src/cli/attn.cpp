// The attn program: what can be done with lessons and traces from a shell.
//
// Exit codes: 0 success, 1 the check failed, 2 wrong usage or unusable input.

#include "run.hpp"

#include "attn/error.hpp"
#include "attn/formula/verify.hpp"
#include "attn/tools/curriculum.hpp"
#include "attn/trace_io/trace_file.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <filesystem>
#include <system_error>

namespace {

using namespace attn;

int list_lessons()
{
    for (const CurriculumEntry& lesson : curriculum()) {
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

int run(int argc, char** argv)
{
    CLI::App app("Attention and the Transformer, step by step.", "attn");
    app.require_subcommand(1);
    app.set_version_flag("--version", ATTN_VERSION);

    CLI::App* lessons = app.add_subcommand("lessons", "the lessons, with what builds on what");

    const std::function<int()> run_module = add_run_command(app);

    CLI::App* verification = app.add_subcommand("verify", "recompute every step of a trace from its formula");
    std::filesystem::path trace;
    verification->add_option("TRACE.npz", trace, "as a lesson's --trace wrote it")->required();

    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success))
            return app.exit(error);
        fmt::print(stderr, "attn: {} (see attn --help)\n", error.what());
        return 2;
    }
    if (lessons->parsed())
        return list_lessons();
    return verification->parsed() ? verify_trace(trace) : run_module();
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
