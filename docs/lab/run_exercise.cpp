// What an exercise's main calls, for a page instead of a command line: the learner's functions are formulas.

#include "lab.hpp"

#include "lines.hpp"

#include "exercise_report.hpp"

#include "attn/core/budget.hpp"
#include "attn/core/error.hpp"
#include "attn/formula/expression.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace attn {

lab::ExerciseRun* lab::current_exercise = nullptr;

struct Exercise::Setup {
    std::string topic;
    lab::ExerciseRun& run;
    lab::Definitions functions = {}; ///< that the learner's lines can call
    std::map<std::string, std::string, std::less<>> failed =
        {}; ///< by function, with which error: it is not called again
};

namespace {

/// What a call's parameters mean, in their order.
std::vector<std::map<std::string, Array, std::less<>>> values_of(const Call& call)
{
    std::vector<std::map<std::string, Array, std::less<>>> values;
    for (const Argument& argument : call.arguments)
        values.emplace_back(argument.arrays.begin(), argument.arrays.end());
    return values;
}

bool has_weights(const Call& call) { return std::ranges::any_of(call.arguments, &Argument::is_weights); }

/// The parts that exercises with weights are given: the functions of lessons/numpy_parts.py.
lab::Definitions parts()
{
    std::ifstream file(std::filesystem::path(ATTN_LESSONS_FOLDER) / "numpy_parts.py");
    std::ostringstream text;
    text << file.rdbuf();
    lab::Definitions functions;
    lab::run_lines(lab::lines_of(text.str()), {}, functions, "");
    return functions;
}

/// The function of the language that a call has to write: its result is nothing but that function of its arguments.
std::string asked_for(const Call& call, const Step& step)
{
    if (step.formula.empty() || !call.result.empty())
        return "";
    const formula::Expression expression = formula::parse_formula(step.formula);
    const bool is_of_arguments = std::ranges::all_of(expression.operands, [&](const formula::Expression& operand) {
        return std::ranges::find(call.arguments, operand.text, &Argument::name) != call.arguments.end();
    });
    return expression.kind == formula::Expression::Kind::call && is_of_arguments ? expression.text : "";
}

/// What a learner's text gives for a call: a function of that name, or lines about the call's arguments.
lab::Ran run_text(const Call& call, const std::string& text, lab::Definitions& functions, const std::string& refused)
{
    constexpr double most_operations = 5e8; // about a second
    const BudgetScope budget(Budget::of_operations(most_operations));
    const std::vector<lab::Line> lines = lab::lines_of(text);
    if (!lab::define(lines, call.function)) {
        lab::Definition definition{{}, lines, false};
        for (const Argument& argument : call.arguments)
            definition.parameters.push_back({argument.name});
        functions.insert_or_assign(call.function, std::move(definition));
    } else {
        lab::run_lines(lines, {}, functions, refused);
    }
    return lab::run_function(call.function, values_of(call), functions, refused);
}

/// The names of a learner's that have the numbers of a step of the reference: what is right so far.
lab::Json right_names(const lab::Ran& ran, const Recording& reference)
{
    lab::Json names = lab::Json::array();
    for (const auto& [name, array] : ran.named)
        for (const Step& step : reference.steps)
            if (!step.formula.empty() && is_same(array, step.value, reference)) {
                names.push_back({{"name", name}, {"step", step.path}});
                break;
            }
    return names;
}

/// What is said of a wrong result; the page itself has the lines that are right.
lab::Json to_json(const Hints& hints)
{
    lab::Json said{{"what", hints.what}, {"step", hints.step}};
    if (hints.mistake != nullptr)
        said["mistake"] = {
            {"id", hints.mistake->id}, {"sentence", hints.mistake->sentence}, {"link", hints.mistake->link}};
    return said;
}

} // namespace

std::filesystem::path Exercise::file(const std::filesystem::path& name) const
{
    return std::filesystem::path(ATTN_LESSONS_FOLDER) / setup_.topic / name;
}

void Exercise::expect_step(const Call& call, const Recording& reference, std::string_view step,
                           const std::function<Array()>&)
{
    const Step& expected = reference.at(step);
    lab::Json said{{"function", call.function}, {"step", expected.path}, {"expected", lab::to_json(expected.value)}};
    for (const Argument& argument : call.arguments) {
        lab::Json& values = said["arguments"][argument.name];
        for (const auto& [part, array] : argument.arrays)
            (part.empty() ? values : values["weights"][part]) = lab::to_json(array);
    }
    if (const auto text = setup_.run.formulas.find(call.function); text != setup_.run.formulas.end()) {
        try {
            if (const auto failed = setup_.failed.find(call.function); failed != setup_.failed.end())
                throw Error(failed->second);
            if (has_weights(call))
                setup_.functions.merge(parts());
            const lab::Ran ran = run_text(call, text->second, setup_.functions, asked_for(call, expected));
            if (ran.results.size() <= call.place)
                throw Error(call.result.empty()
                                ? "there is no result: the last line is one, or return says it"
                                : "expected several results, with " + call.result + " among them: return a, b");
            Array found = ran.results[call.place];
            if (found.size() == 1 && expected.value.size() == 1)
                found.shape = expected.value.shape;
            said["found"] = lab::to_json(found);
            said["right"] = is_same(found, expected.value, reference);
            if (!said["right"]) {
                said["hints"] = to_json(hints_on({call, reference, expected, found, "the box"}));
                said["names"] = right_names(ran, reference);
            }
        } catch (const Error& error) {
            said["error"] = error.what();
            setup_.failed.emplace(call.function, error.what());
        }
    }
    setup_.run.calls.push_back(std::move(said));
}

int Exercise::run(std::string_view topic, int, char**, void (*check)(Exercise&))
{
    Setup setup{std::string(topic), *lab::current_exercise};
    Exercise exercise(setup);
    check(exercise);
    return 0;
}

} // namespace attn
