// What an exercise's main calls, for a page instead of a command line: the learner's functions are formulas.

#include "lab.hpp"

#include "exercise_report.hpp"

#include "attn/core/error.hpp"
#include "attn/formula/evaluate.hpp"

#include <cctype>
#include <map>
#include <sstream>

namespace attn {

lab::ExerciseRun* lab::current_exercise = nullptr;

struct Exercise::Setup {
    std::string topic;
    lab::ExerciseRun& run;
};

namespace {

/// The array that a name in a learner's formula means: an argument, or one of a struct's weights, "parameters.bias".
const Array* argument_called(const Call& call, std::string_view name)
{
    for (const Argument& argument : call.arguments)
        for (const auto& [part, array] : argument.arrays)
            if (name == (part.empty() ? argument.name : argument.name + "." + part))
                return &array;
    return nullptr;
}

/// What a learner's lines give: each but the last names what its formula gives, "d = keys.shape[1]"; the last is the result.
Array evaluate_lines(const Call& call, const std::string& text)
{
    std::map<std::string, Array, std::less<>> named;
    const auto lookup = [&](std::string_view name) {
        const auto found = named.find(name);
        return found == named.end() ? argument_called(call, name) : &found->second;
    };
    std::istringstream lines(text);
    Array result;
    for (std::string line; std::getline(lines, line);) {
        const std::size_t first = line.find_first_not_of(" \t");
        if (first == line.npos)
            continue;
        std::size_t after = first;
        while (after < line.size() &&
               (std::isalnum(static_cast<unsigned char>(line[after])) != 0 || line[after] == '_'))
            ++after;
        const std::string name = line.substr(first, after - first);
        const std::size_t sign = line.find_first_not_of(" \t", after);
        const bool is_named = sign != line.npos && line[sign] == '=' && line.compare(sign, 2, "==") != 0;
        result = formula::evaluate(is_named ? line.substr(sign + 1) : line, lookup).value;
        if (is_named)
            named.insert_or_assign(name, result);
    }
    return result;
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
    const std::string key = call.function + (call.result.empty() ? "" : "." + call.result);
    lab::Json said{
        {"function", key}, {"step", expected.path}, {"expected", lab::to_json(expected.value)}, {"task", call.task}};
    for (const Argument& argument : call.arguments)
        for (const auto& [part, array] : argument.arrays)
            said["arguments"][part.empty() ? argument.name : argument.name + "." + part] = lab::to_json(array);
    if (const auto formula = setup_.run.formulas.find(key); formula != setup_.run.formulas.end()) {
        try {
            Array found = evaluate_lines(call, formula->second);
            if (found.size() == 1 && expected.value.size() == 1)
                found.shape = expected.value.shape;
            said["found"] = lab::to_json(found);
            said["right"] = is_same(found, expected.value, reference);
            if (!said["right"])
                said["report"] = report({call, reference, expected, found, "the box"});
        } catch (const Error& error) {
            said["error"] = error.what();
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
