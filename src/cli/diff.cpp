#include "diff.hpp"

#include "attn/error.hpp"
#include "attn/diff/diff.hpp"
#include "attn/trace_io/file.hpp"
#include "attn/trace_io/trace_file.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace attn {
namespace {

using Json = nlohmann::ordered_json;

/// What one command line asks for.
struct Request {
    std::filesystem::path reference, mine;
    DiffOptions options;
    bool diagnoses = false, for_machines = false;
};

// ------------------------------------------------------------------------------------------------ what it looks like

void print_likely_mistakes(const Diff& diff)
{
    if (diff.first_wrong() == nullptr)
        return;
    const std::vector<Diagnosis> diagnoses = diagnose(diff);
    for (const Diagnosis& diagnosis : diagnoses) {
        const Step& step = *diagnosis.steps.front();
        fmt::print("looks like {}: {}\n  {} = {} where {} is right\n  seen: {}\n", diagnosis.pitfall->id,
                   diagnosis.pitfall->sentence, step.path, diagnosis.formula, step.formula, diagnosis.pitfall->link);
    }
    if (diagnoses.empty())
        fmt::print("looks like none of the well-known mistakes that attn pitfalls lists\n");
}

// ------------------------------------------------------------------------------------------------ for people

std::string cell_text(const StepDiff& step)
{
    const Shape& index = step.distance.worst;
    return step.step->path + (index.empty() ? "" : fmt::format("[{}]", fmt::join(index, ",")));
}

std::string shortened(const std::vector<std::string>& names, std::size_t most)
{
    const std::vector<std::string> first(names.begin(),
                                         names.begin() + static_cast<std::ptrdiff_t>(std::min(most, names.size())));
    return printable(fmt::format("{}", fmt::join(first, ", "))) +
           (names.size() > most ? fmt::format(" and {} more", names.size() - most) : "");
}

bool has_numbers(const StepDiff& step) { return step.distance.differing > 0; }

void print_distance(const StepDiff& step, NumberType type)
{
    const Distance& distance = step.distance;
    fmt::print("  worst: {}{}: expected {}, found {}\n", cell_text(step),
               step.place.empty() ? "" : " (" + step.place + ")", number_text(distance.expected, type),
               number_text(distance.found, type));
    const bool is_finite = std::isfinite(distance.expected) && std::isfinite(distance.found);
    if (!is_finite && distance.absolute == 0)
        return;
    if (!is_finite) {
        fmt::print("  where both are finite, off by {:.3g} at most\n", distance.absolute);
        return;
    }
    fmt::print("  off by {:.3g} at most, {:.3g} relative, {:.3g} ulp of {}; allowed {:.3g}; cosine similarity {:.6g}\n",
               distance.absolute, distance.relative, distance.ulps, name_of(type), distance.tolerance, distance.cosine);
}

/// The step to look at first, with all that is known about it.
void print_first(const Diff& diff)
{
    const StepDiff* first = diff.first_different();
    if (first == nullptr)
        return;
    const StepDiff* wrong = diff.first_wrong();
    const StepDiff& shown = wrong != nullptr ? *wrong : *first;
    const std::string alias = shown.mine == shown.step->path ? "" : " (" + printable(shown.mine) + ")";
    fmt::print("first {}: {}{} {}\n", wrong == nullptr ? "difference" : "wrong step", shown.step->path, alias,
               printable(shown.message));
    if (has_numbers(shown))
        print_distance(shown, diff.type);
    if (!shown.through.empty())
        fmt::print("  or in a step before it that MINE does not have: {}\n", shortened(shown.through, 6));
}

std::string inherited_text(const StepDiff& step)
{
    const Distance& distance = step.distance;
    std::string text = fmt::format("off by {:.3g} at most", distance.absolute);
    if (distance.nans > 0)
        text = fmt::format("is NaN in {} of its numbers", distance.nans);
    else if (distance.infinities > 0)
        text = fmt::format("is infinite in {} of its numbers", distance.infinities);
    return step.layout.empty() ? text : fmt::format("{}; {}", text, step.layout);
}

void print_others(const Diff& diff)
{
    constexpr std::size_t most = 30;
    const StepDiff* wrong = diff.first_wrong();
    const StepDiff* shown = wrong != nullptr ? wrong : diff.first_different();
    std::size_t printed = 0, left = 0;
    for (const StepDiff& step : diff.steps) {
        if (step.passed() || &step == shown)
            continue;
        if (printed++ >= most) {
            ++left;
            continue;
        }
        const std::string numbers = has_numbers(step) && step.verdict == DiffVerdict::inherited
                                        ? inherited_text(step)
                                        : printable(step.message);
        fmt::print("{:<9}  {}: {}\n", name_of(step.verdict), has_numbers(step) ? cell_text(step) : step.step->path,
                   numbers);
    }
    if (left > 0)
        fmt::print("{:<9}  and {} more\n", "", left);
}

/// The noisiest of the steps that are fine.
void print_noise(const Diff& diff)
{
    const StepDiff* worst = nullptr;
    for (const StepDiff& step : diff.steps)
        if (step.verdict == DiffVerdict::noise &&
            (worst == nullptr || step.distance.absolute > worst->distance.absolute))
            worst = &step;
    if (worst != nullptr)
        fmt::print("noise: at most {:.3g}, in {}; {:.3g} relative\n", worst->distance.absolute, worst->step->path,
                   worst->distance.relative);
}

void print_names(const Diff& diff)
{
    if (!diff.missing.empty())
        fmt::print("{}: {} steps that MINE does not have: {}\n", diff.missing_fails ? "missing" : "not compared",
                   diff.missing.size(), shortened(diff.missing, 8));
    if (!diff.extra.empty())
        fmt::print("{}: {} arrays of MINE that are no step of the reference: {}\n",
                   diff.extra_fails ? "extra" : "not compared", diff.extra.size(), shortened(diff.extra, 8));
}

int report(const Diff& diff, const Request& request)
{
    print_first(diff);
    if (request.diagnoses)
        print_likely_mistakes(diff);
    print_others(diff);
    if (diff.steps.empty())
        fmt::print("nothing in common: no array of MINE has a step's name; --names or --map translate names\n");
    print_names(diff);
    print_noise(diff);
    if (!diff.hint.empty())
        fmt::print("hint: {}\n", diff.hint);

    std::string counts;
    for (const DiffVerdict verdict :
         {DiffVerdict::equal, DiffVerdict::noise, DiffVerdict::layout, DiffVerdict::bug, DiffVerdict::inherited})
        if (const std::size_t count = diff.count(verdict))
            counts += fmt::format(", {} {}", count, name_of(verdict));
    fmt::print("{}: {}: {} compared as {}{}\n", request.mine.string(), diff.passed() ? "the same" : "different",
               diff.steps.size(), name_of(diff.type), counts);
    return diff.passed() ? 0 : 1;
}

// ------------------------------------------------------------------------------------------------ for machines

/// JSON has no infinity and no NaN: they become text.
Json json_of(double number)
{
    return std::isfinite(number) ? Json(number) : Json(number_text(number, NumberType::float64));
}

Json json_of(const StepDiff& step)
{
    Json json{{"step", step.step->path},          {"mine", printable(step.mine)},
              {"verdict", name_of(step.verdict)}, {"message", printable(step.message)},
              {"layout", printable(step.layout)}, {"formula", step.step->formula},
              {"shape", step.step->value.shape},  {"found_shape", step.shape},
              {"through", step.through}};
    if (!has_numbers(step))
        return json;
    const Distance& distance = step.distance;
    json["worst"] = {{"index", distance.worst},
                     {"place", step.place},
                     {"expected", json_of(distance.expected)},
                     {"found", json_of(distance.found)},
                     {"ulps", json_of(distance.ulps)},
                     {"tolerance", json_of(distance.tolerance)}};
    json["differing"] = distance.differing;
    json["beyond"] = distance.beyond;
    json["nans"] = distance.nans;
    json["infinities"] = distance.infinities;
    json["absolute"] = json_of(distance.absolute);
    json["relative"] = json_of(distance.relative);
    json["cosine"] = json_of(distance.cosine);
    return json;
}

Json json_of(const Diagnosis& diagnosis)
{
    Json steps = Json::array();
    for (const Step* step : diagnosis.steps)
        steps.push_back(step->path);
    return {{"id", diagnosis.pitfall->id},     {"sentence", diagnosis.pitfall->sentence},
            {"link", diagnosis.pitfall->link}, {"steps", steps},
            {"formula", diagnosis.formula},    {"right", diagnosis.steps.front()->formula}};
}

Json path_or_null(const StepDiff* step) { return step == nullptr ? Json(nullptr) : Json(step->step->path); }

int report_for_machines(const Diff& diff, const Request& request)
{
    Json json{{"same", diff.passed()},
              {"type", name_of(diff.type)},
              {"first_different", path_or_null(diff.first_different())},
              {"first_wrong", path_or_null(diff.first_wrong())},
              {"steps", Json::array()},
              {"missing", diff.missing},
              {"missing_fails", diff.missing_fails},
              {"extra", Json::array()},
              {"extra_fails", diff.extra_fails},
              {"hint", diff.hint}};
    for (const StepDiff& step : diff.steps)
        json["steps"].push_back(json_of(step));
    for (const std::string& name : diff.extra)
        json["extra"].push_back(printable(name));
    if (request.diagnoses) {
        json["looks_like"] = Json::array();
        for (const Diagnosis& diagnosis : diagnose(diff))
            json["looks_like"].push_back(json_of(diagnosis));
    }
    fmt::print("{}\n", json.dump(1, ' ', false, Json::error_handler_t::replace));
    return diff.passed() ? 0 : 1;
}

// ------------------------------------------------------------------------------------------------ the command line

NameRule read_rule(const std::string& text)
{
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
        throw Error("diff: --map " + text + " is not of the form NAME=STEP");
    return {text.substr(0, equals), text.substr(equals + 1)};
}

int compare(const Request& request, const std::vector<std::string>& maps)
{
    DiffOptions options = request.options;
    for (const std::string& map : maps)
        options.names.push_back(read_rule(map));
    const Recording reference = read_trace(request.reference);
    const Diff result = diff(reference, request.mine, options);
    return request.for_machines ? report_for_machines(result, request) : report(result, request);
}

const char* const description =
    "Compares what your program computed with a reference, step by step, and finds the first step that is wrong by "
    "itself.\n\n"
    "Each step that both have is equal, noise (rounding in the type that MINE was computed in, as far as measuring "
    "tells), layout (the right numbers in another order), a bug (wrong by itself), or inherited (right for MINE's own "
    "operands: an earlier step is to blame). Equal and noise pass.\n\n"
    "Steps that MINE does not have are listed and pass, since few programs keep all of them; they fail with --all, or "
    "where nothing is in common. Arrays of MINE that are no step fail, since a name can be misspelt; with --names they "
    "are listed and pass, unless --all is given.\n\n"
    "Exit codes: 0 the same, 1 different, 2 wrong usage or unusable input.";

CLI::Validator not_negative()
{
    return CLI::Validator(
        [](const std::string& text) -> std::string {
            double number = 0;
            const bool is_number = CLI::detail::lexical_cast(text, number) && std::isfinite(number);
            return is_number && number >= 0 ? "" : text + " is not a number from zero on";
        },
        "");
}

void add_name_flags(CLI::App& command, const std::shared_ptr<Request>& request,
                    const std::shared_ptr<std::vector<std::string>>& maps)
{
    command
        .add_option("--map", *maps,
                    "the array NAME of MINE is the reference's STEP; again for more; 'probs[..., {h}, :, :]="
                    "head.{h}.weights' takes an axis of heads apart")
        ->type_name("NAME=STEP")
        ->take_all();
    std::vector<std::string> names;
    for (const NameTable& table : name_tables())
        names.emplace_back(table.name);
    command
        .add_option_function<std::string>(
            "--names",
            [request](const std::string& name) {
                for (const NameTable& table : name_tables())
                    if (table.name == name)
                        request->options.table = &table;
            },
            "MINE has the names of a well-known program (docs/diff.md lists them)")
        ->type_name(fmt::format("{}", fmt::join(names, "|")))
        ->check(CLI::IsMember(names));
}

void add_number_flags(CLI::App& command, const std::shared_ptr<Request>& request)
{
    command.add_option("--atol", request->options.atol, "allow this much, in place of what is measured")
        ->type_name("A")
        ->check(not_negative());
    command.add_option("--rtol", request->options.rtol, "allow this much of the expected number, besides --atol")
        ->type_name("R")
        ->check(not_negative());
    command
        .add_option_function<std::string>(
            "--type",
            [request](const std::string& name) {
                for (const NumberType type :
                     {NumberType::float64, NumberType::float32, NumberType::float16, NumberType::bfloat16})
                    if (name == name_of(type))
                        request->options.type = type;
            },
            "that MINE was computed in; seen from its numbers unless given")
        ->type_name("float64|float32|float16|bfloat16")
        ->check(CLI::IsMember({"float64", "float32", "float16", "bfloat16"}));
}

} // namespace

std::function<int()> add_diff_command(CLI::App& app)
{
    CLI::App* command = app.add_subcommand("diff", "where what your program computed first differs from a reference");
    command->footer(description);
    const auto request = std::make_shared<Request>();
    const auto maps = std::make_shared<std::vector<std::string>>();
    command->add_option("REFERENCE.npz", request->reference, "a trace, as --trace wrote it")->required();
    command->add_option("MINE", request->mine, "a trace, an .npz of plain arrays, or a folder of .npy files")
        ->required();
    add_name_flags(*command, request, maps);
    add_number_flags(*command, request);
    command->add_flag("--all", request->options.all, "fail where MINE lacks a step or has one more");
    command->add_flag("--diagnose", request->diagnoses, "say which well-known mistake gives the first wrong step");
    command->add_flag("--json", request->for_machines, "for machines");
    return [request, maps] { return compare(*request, *maps); };
}

} // namespace attn
