#include "exercise_check.hpp"

#include "exercise_calls.hpp"
#include "exercise_report.hpp"

#include "attn/cli/flags.hpp"
#include "attn/cli/print_escaped.hpp"
#include "attn/core/error.hpp"
#include "attn/formula/scope.hpp"
#include "attn/formula/verify.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <optional>
#include <stdexcept>

namespace attn {

/// What one run of an exercise's program does.
struct Exercise::Setup {
    std::string topic;
    std::filesystem::path calls_file = {}, found_file = {},
                          verdict_file = {}; ///< empty unless the flags name them
    bool with_hint = false, with_answer = false;
    files::NamedArrays found =
        {};                ///< what exercise.py returned, by the number of the call
    std::size_t count = 0; ///< of the calls so far
    std::vector<std::string> right =
        {}; ///< functions without a wrong result so far, each once
    std::vector<ExpectedCall> calls = {}; ///< of all functions, for exercise.py
};

namespace {

/// A function is wrong, not written yet, or ended with an error; the message says so.
class Failed : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// Tells script/exercise what an exercise that ends or never returns can't say itself.
void state(const std::filesystem::path& pipe, const std::string& line)
{
    if (!pipe.empty())
        std::ofstream(pipe) << line + "\n";
}

/// The numbers that a learner is compared with follow from the formulas that a message
/// shows.
void expect_verified(const Recording& reference)
{
    for (const formula::StepCheck& check : formula::verify(reference).checks)
        if (!check.passed())
            throw std::logic_error("the reference is wrong: " + check.path + ": " +
                                   check.message);
}

} // namespace

std::filesystem::path Exercise::file(const std::filesystem::path& name) const
{
    return std::filesystem::path(ATTN_LESSONS_FOLDER) / setup_.topic / name;
}

void Exercise::expect_step(const Call& call, const Recording& reference,
                           std::string_view step, const std::function<Array()>& mine)
{
    ++setup_.count;
    expect_verified(reference);
    if (!setup_.calls_file.empty()) {
        setup_.calls.push_back({call, reference, std::string(step)});
        return;
    }
    std::erase(setup_.right, call.function); // until this call is right, too
    const Step& expected = reference.at(step);
    Array found = found_by(call, mine);
    if (found.size() == 1 && expected.value.size() == 1)
        found.shape = expected.value.shape; // a single number, or a matrix of one
    if (!is_same(found, expected.value, reference)) {
        const std::string file = fmt::format("lessons/{}/exercise.{}", setup_.topic,
                                             setup_.found_file.empty() ? "cpp" : "py");
        throw Failed(to_text(hints_on({call, reference, expected, found, file}),
                             setup_.with_answer ? Stage::line
                             : setup_.with_hint ? Stage::step
                                                : Stage::what));
    }
    setup_.right.push_back(call.function);
}

Array Exercise::found_by(const Call& call, const std::function<Array()>& mine) const
{
    if (!setup_.found_file.empty()) {
        const auto found = setup_.found.find(call_name(setup_.count - 1));
        if (found == setup_.found.end())
            throw Failed(""); // it ended with an error, which check_exercise.py reports
        return found->second;
    }
    state(setup_.verdict_file, "running " + call.function);
    try {
        return mine();
    } catch (const std::exception& error) {
        throw Failed(
            fmt::format("{} ended with an error: {}\n", call.function, error.what()));
    }
}

int Exercise::run(std::string_view topic, int argc, char** argv, void (*check)(Exercise&))
{
    Setup setup{.topic = std::string(topic)};
    const auto right = [&] { return fmt::format("{}", fmt::join(setup.right, ", ")); };
    const auto run = [&] {
        if (!setup.found_file.empty())
            setup.found = files::read_npz(setup.found_file);
        Exercise exercise(setup);
        try {
            check(exercise);
        } catch (const Failed& failed) {
            if (!setup.right.empty())
                cli::print("right so far: {}\n", right());
            files::expect_delivered();
            std::fputs(printable_lines(failed.what()).c_str(), stderr);
            return 1;
        }
        if (!setup.calls_file.empty()) {
            write_calls(setup.calls_file, setup.calls);
            return 0;
        }
        cli::print("exercise {} is done: {} {} right. A solution to compare with: "
                   "tests/exercises/{}.{}\n",
                   std::stoi(setup.topic), right(),
                   setup.right.size() == 1 ? "is" : "are", setup.topic,
                   setup.found_file.empty() ? "cpp" : "py");
        return 0;
    };
    const int code = cli::run_program(
        {.name = std::filesystem::path(argv[0]).filename(),
         .summary = "Checks the functions of exercise.cpp.",
         .groups = {{"While you write",
                     {{"--hint", "", setup.with_hint,
                       "show the step to look at, and the arithmetic of its number"},
                      {"--answer", "", setup.with_answer, "show the formula, too"}}},
                    {"For exercise.py",
                     {{"--calls", "FILE.npz", setup.calls_file,
                       "write the arguments of every call instead"},
                      {"--found", "FILE.npz", setup.found_file,
                       "check what the functions of exercise.py returned instead"}}},
                    {"For script/exercise",
                     {{"--verdict", "PIPE", setup.verdict_file,
                       "write there which function is called, and at the end the "
                       "result"}}}},
         .run = run},
        argc, argv);
    state(setup.verdict_file, "verdict " + std::to_string(code));
    return code;
}

} // namespace attn
