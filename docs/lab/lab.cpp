// What a page asks of the library: one function that takes a question and gives an answer, both in JSON.

#include "lab.hpp"

#include "small_model.hpp"

#include "attn/core/error.hpp"
#include "attn/files/file.hpp"
#include "attn/formula/evaluate.hpp"
#include "attn/formula/explain.hpp"
#include "attn/formula/scope.hpp"
#include "attn/formula/verify.hpp"
#include "attn/mistakes/pitfalls.hpp"
#include "attn/reference/models/gpt.hpp"

#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <limits>
#include <map>

#define PROGRAM(name) int name(int, char**);
#include "programs.inc"
#undef PROGRAM

namespace attn::lab {
namespace {

using Program = int (*)(int, char**);

const std::map<std::string, Program>& programs()
{
    static const std::map<std::string, Program> all{
#define PROGRAM(name) {#name, name},
#include "programs.inc"
#undef PROGRAM
    };
    return all;
}

/// The lesson's run that the page shows: it is verified, and its numbers are explained.
Recording shown;
std::vector<double> numbers_of_answer;

constexpr std::string_view type_names[] = {"real", "boolean", "integer"}; // by ElementType

void run_program(const std::string& name)
{
    const auto found = programs().find(name);
    if (found == programs().end())
        throw Error("the page can't compute " + name);
    std::string argument = name;
    char* arguments[] = {argument.data(), nullptr};
    found->second(1, arguments);
    std::fflush(stdout);
}

mistakes::InterventionFlags interventions_in(const Json& asked)
{
    mistakes::InterventionFlags flags;
    const std::string round = asked.value("round", "");
    for (const mistakes::Precision type :
         {NumberType::float64, NumberType::float32, NumberType::float16, NumberType::bfloat16})
        if (round == name_of(type))
            flags.round = type;
    flags.ablate = asked.value("ablate", std::vector<std::string>());
    flags.pitfall = asked.value("pitfall", "");
    return flags;
}

/// The steps of a run, whose numbers lie one after the other from lab_numbers() on.
Json steps_of(const Recording& recording)
{
    numbers_of_answer.clear();
    Json steps = Json::array();
    for (const Step& step : recording.steps) {
        steps.push_back({{"path", step.path},
                         {"axes", step.axes},
                         {"shape", step.value.shape},
                         {"formula", step.formula},
                         {"type", type_names[static_cast<std::size_t>(step.value.type)]},
                         {"at", numbers_of_answer.size()}});
        numbers_of_answer.insert(numbers_of_answer.end(), step.value.values.begin(), step.value.values.end());
    }
    return steps;
}

Json verified(const Recording& recording)
{
    const formula::Verification result = formula::verify(recording);
    Json failures = Json::array();
    for (const formula::StepCheck& check : result.checks)
        if (!check.passed())
            failures.push_back({{"path", check.path}, {"message", check.message}});
    return {{"recomputed", result.recomputed()}, {"inputs", result.inputs()}, {"failures", failures}};
}

/// A run as the page gets it. What is verified and explained from now on is of this run.
Json shown_run(Recording recording)
{
    shown = std::move(recording);
    Json aliases = Json::object();
    for (const Alias& alias : shown.aliases)
        aliases[alias.path] = alias.target;
    return {{"steps", steps_of(shown)}, {"aliases", aliases}, {"count", numbers_of_answer.size()}};
}

Json run_lesson(const Json& asked)
{
    LessonRun run;
    if (const auto inputs = asked.find("inputs"); inputs != asked.end())
        for (const auto& [name, array] : inputs->items())
            run.inputs.emplace(name, to_array(array));
    run.interventions = interventions_in(asked);
    current_run = &run;
    run_program("lesson_" + asked.at("lesson").get<std::string>());
    Json result = shown_run(std::move(run.recording));
    result["inputs"] = run.asked_for;
    result["refuted"] = run.refuted;
    result["overflow"] = run.overflow;
    return result;
}

/// What formulas give for arrays; each is known under its name to those after it.
Json evaluate_all(const Json& asked)
{
    std::map<std::string, Array, std::less<>> arrays;
    for (const auto& [name, array] : asked.at("given").items())
        arrays.emplace(name, to_array(array));
    const auto lookup = [&](std::string_view name) {
        const auto found = arrays.find(name);
        return found == arrays.end() ? nullptr : &found->second;
    };
    Json results = Json::object();
    for (const auto& [name, formula] : asked.at("formulas").items()) {
        Array value = formula::evaluate(formula.get<std::string>(), lookup).value;
        results[name] = to_json(value);
        arrays.insert_or_assign(name, std::move(value));
    }
    return {{"results", results}};
}

/// The small model on words of its vocabulary. What is explained stays the lesson's.
Json run_story(const Json& asked)
{
    static const SmallModel model = small_model();
    const mistakes::Interventions interventions(interventions_in(asked));
    Recorder recorder;
    Listeners listeners(interventions.before({&recorder}));
    gpt(model.ids(asked.at("words").get<std::string>()), model.weights, model.options, Trace(listeners));
    interventions.expect_effect();
    return {{"steps", steps_of(recorder.recording())},
            {"aliases", Json::object()},
            {"count", numbers_of_answer.size()},
            {"vocabulary", model.vocabulary}};
}

/// The well-known mistakes that can be made in the run, and change a number of it.
Json mistakes_in_run()
{
    const formula::StepNames names(shown);
    Json found = Json::array();
    for (const mistakes::Pitfall& pitfall : mistakes::pitfalls())
        for (std::size_t i = 0; i < shown.steps.size(); ++i) {
            const auto step_of = [&](std::string_view name) {
                const auto number = names.resolve(i, name);
                return number ? &shown.steps[*number] : nullptr;
            };
            const std::optional<Array> wrong = mistakes::mistaken_value(pitfall, shown.steps[i], step_of);
            if (wrong && !identical(*wrong, shown.steps[i].value)) {
                found.push_back({{"id", pitfall.id}, {"sentence", pitfall.sentence}});
                break;
            }
        }
    return {{"mistakes", found}};
}

Json run_exercise(const Json& asked)
{
    ExerciseRun run;
    run.formulas = asked.value("formulas", std::map<std::string, std::string>());
    current_exercise = &run;
    run_program("exercise_" + asked.at("lesson").get<std::string>());
    return {{"calls", run.calls}};
}

Json answer(const Json& asked)
{
    const std::string what = asked.at("do").get<std::string>();
    if (what == "run")
        return run_lesson(asked);
    if (what == "evaluate")
        return evaluate_all(asked);
    if (what == "story")
        return run_story(asked);
    if (what == "verify")
        return verified(shown);
    if (what == "mistakes")
        return mistakes_in_run();
    if (what == "explain")
        return {{"text", formula::explain_text(shown, asked.at("cell").get<std::string>(), {.digits = 6})}};
    if (what == "exercise")
        return run_exercise(asked);
    throw Error("the lab can't " + what);
}

} // namespace

Json to_json(const Array& array)
{
    Json values = Json::array();
    for (const double value : array.values)
        values.push_back(std::isfinite(value) ? Json(value) : Json(exact_text(value)));
    return {{"shape", array.shape}, {"values", values}, {"type", type_names[static_cast<std::size_t>(array.type)]}};
}

Array to_array(const Json& json)
{
    Array array{json.at("shape").get<Shape>(), {}, ElementType::real};
    const std::string type = json.value("type", "real");
    for (const ElementType known : {ElementType::integer, ElementType::boolean})
        if (type == type_names[static_cast<std::size_t>(known)])
            array.type = known;
    for (const Json& value : json.at("values"))
        array.values.push_back(value.is_number() ? value.get<double>()
                               : value == "inf"  ? std::numeric_limits<double>::infinity()
                               : value == "-inf" ? -std::numeric_limits<double>::infinity()
                                                 : std::numeric_limits<double>::quiet_NaN());
    if (array.values.size() != element_count(array.shape))
        throw Error("found " + std::to_string(array.values.size()) + " numbers, expected those of the shape " +
                    to_string(array.shape));
    return array;
}

} // namespace attn::lab

extern "C" {

/// Answers a question: {"do": "run", "lesson": "01_single_query"}. A question that can't be answered gives {"error": why}; or
/// {"lacks": "small_model/model.safetensors"}, a file that the page has to load before it asks again.
const char* lab(const char* question)
{
    static std::string text;
    try {
        text = attn::lab::answer(attn::lab::Json::parse(question)).dump();
    } catch (const attn::files::FileError& error) {
        text = (std::filesystem::exists(error.path())
                    ? attn::lab::Json{{"error", error.what()}}
                    : attn::lab::Json{{"lacks", error.path().lexically_relative(ATTN_LESSONS_FOLDER).string()}})
                   .dump();
    } catch (const std::exception& error) {
        text = attn::lab::Json{{"error", error.what()}}.dump();
    }
    return text.c_str();
}

/// The numbers of all steps of the run that was answered last.
const double* lab_numbers() { return attn::lab::numbers_of_answer.data(); }
}
