#include "commands.hpp"

#include "lessons/exercise_calls.hpp"
#include "lessons/exercise_report.hpp"

#include "attn/cli/print_escaped.hpp"
#include "attn/core/error.hpp"

#include <algorithm>
#include <memory>

namespace attn::cli {
namespace {

struct Request {
    std::filesystem::path calls, found;
    bool with_hint = false, with_answer = false;
};

/// What is said of the functions of which something was found, in their order: each is right, or wrong in its first wrong call.
int check_exercise(const Request& request)
{
    const Stage stage = request.with_answer ? Stage::line : request.with_hint ? Stage::step : Stage::what;
    const std::vector<ExpectedCall> calls = read_calls(request.calls);
    files::NamedArrays found = files::read_npz(request.found);
    std::vector<std::string> right, wrong;
    for (std::size_t number = 0; number < calls.size(); ++number) {
        const auto& [call, reference, path] = calls[number];
        const auto mine = found.find(call_name(number));
        if (mine == found.end() || std::ranges::count(wrong, call.function) > 0)
            continue;
        const Step& expected = reference.at(path);
        if (mine->second.size() == 1 && expected.value.size() == 1)
            mine->second.shape = expected.value.shape;
        if (is_same(mine->second, expected.value, reference)) {
            if (std::ranges::count(right, call.function) == 0)
                right.push_back(call.function);
            continue;
        }
        std::erase(right, call.function);
        wrong.push_back(call.function);
        print_lines(to_text(hints_on({call, reference, expected, mine->second, "your function"}), stage));
    }
    if (right.empty() && wrong.empty())
        throw Error(request.found.string(), " has no result of a call: call.0, call.1, …");
    for (const std::string& function : right)
        print("{} is right.\n", function);
    return wrong.empty() ? 0 : 1;
}

} // namespace

Command exercise_command()
{
    const auto request = std::make_shared<Request>();
    return {
        .name = "exercise",
        .summary = "check what the functions of a lesson's exercise returned",
        .groups = {{"Arguments",
                    {{"CALLS.npz", "", request->calls, "the calls, as an exercise's program writes them with --calls"},
                     {"FOUND.npz", "", request->found, "what the functions returned: arrays call.0, call.1, …"}}},
                   {"Flags",
                    {{"--hint", "", request->with_hint, "show the step to look at, and the arithmetic of its number"},
                     {"--answer", "", request->with_answer, "show the formula, too"}}}},
        .run = [request] { return check_exercise(*request); }};
}

} // namespace attn::cli
