#include "commands.hpp"
#include "diff_runs.hpp"
#include "json.hpp"

#include "attn/cli/print_escaped.hpp"
#include "attn/cli/shared_flags.hpp"
#include "attn/core/budget.hpp"
#include "attn/core/error.hpp"
#include "attn/diff/diff.hpp"
#include "attn/files/file.hpp"
#include "attn/files/trace_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace attn::cli {
namespace {

using Json = nlohmann::ordered_json;
using cli::json_of; // beside those for what diff says

struct Request {
    std::filesystem::path reference, mine, json_file;
    diff::DiffOptions options;
    bool diagnoses = false, for_machines = false;
    std::optional<std::size_t> budget;
};

/// What MINE was called.
struct Outcome {
    /// Nothing where something is wrong, every number is the reference's, or the user says what is near.
    std::optional<diff::Power> power = {};
    bool is_same = false, is_different = false;
    std::string_view word() const { return is_same ? "the same" : is_different ? "different" : "undecided"; }
    int exit_code() const { return is_same ? 0 : 1; }
};

bool has_numbers(const diff::StepDiff& step) { return step.distance.differing > 0; }

Outcome outcome_of(const diff::Diff& diff, const Request& request)
{
    if (diff.is_doubtful)
        return {};
    if (diff.first_different() != nullptr || diff.missing_fails || diff.extra_fails)
        return {.is_different = true};
    if (request.options.atol || request.options.rtol || std::ranges::none_of(diff.steps, has_numbers))
        return {.is_same = diff.passed()};
    diff::Power power = diff::power_of(diff);
    const bool decides = power.decides();
    return {.power = std::move(power), .is_same = diff.passed() && decides};
}

// ------------------------------------------------------------------------------------------------ what it looks like

void print_likely_mistakes(const diff::Diff& diff, const std::vector<diff::Diagnosis>& diagnoses, bool is_everywhere)
{
    const Step* later = diagnoses.empty() ? nullptr : diagnoses.front().later;
    const bool is_named = !diagnoses.empty() && later == nullptr;
    if (!is_named && diff.first_different() != nullptr && diff::is_diagnosis_cut(diff))
        print("looks like none of the well-known mistakes that were tried; the model is too large to try all of them: "
              "save some of the steps before, or give --budget\n");
    else if (!is_named && diff.first_wrong() != nullptr)
        print("looks like none of the well-known mistakes that attn pitfalls lists{}\n",
              is_everywhere ? ", made in all steps that they concern" : "");
    for (const diff::Diagnosis& diagnosis : diagnoses) {
        if (diagnosis.is_alternative) {
            print("  {} gives these numbers, too: {}\n", diagnosis.pitfall->id, diagnosis.pitfall->sentence);
            continue;
        }
        const Step& step = *diagnosis.steps.front();
        print("{}looks like {}: {}\n  {} = {} where {} is right\n  seen: {}\n",
              later == nullptr ? "" : later->path + ", which is wrong by itself, ", diagnosis.pitfall->id,
              diagnosis.pitfall->sentence, step.path, diagnosis.formulas.front(), step.formula,
              diagnosis.pitfall->link);
    }
}

// ------------------------------------------------------------------------------------------------ for people

std::string shortened(const std::vector<std::string>& names, std::size_t most)
{
    const std::vector<std::string> first(names.begin(),
                                         names.begin() + static_cast<std::ptrdiff_t>(std::min(most, names.size())));
    return printable(fmt::format("{}", fmt::join(first, ", "))) +
           (names.size() > most ? fmt::format(" and {} more", names.size() - most) : "");
}

void print_distance(const diff::StepDiff& step, NumberType type)
{
    const diff::Distance& distance = step.distance;
    print("  worst: {}{}{}: expected {}, found {}\n", step.step->path, bracketed(distance.worst),
          step.place.empty() ? "" : " (" + step.place + ")", number_text(distance.expected, type),
          number_text(distance.found, type));
    const bool is_finite = std::isfinite(distance.expected) && std::isfinite(distance.found);
    if (!is_finite && distance.absolute == 0)
        return;
    if (!is_finite) {
        print("  where both are finite, off by {:.3g} at most\n", distance.absolute);
        return;
    }
    print("  off by {:.3g} at most, {:.3g} relative, {:.3g} ulp of {}; {}allowed {:.3g}; cosine similarity {:.6g}\n",
          distance.absolute, distance.relative, distance.ulps, name_of(type),
          distance.typical > 0 ? fmt::format("typical {:.3g}; ", distance.typical) : "", distance.tolerance,
          distance.cosine);
}

/// Where to look in the program that MINE was recorded from.
void print_origin(const diff::Origin& origin, bool is_wrong)
{
    const bool is_told = origin.variable == "return" || origin.function == "<module>";
    const std::string function = is_told ? "" : ", in " + origin.function;
    print("first {}: {}\n", is_wrong ? "wrong" : "difference", text_of(origin) + function);
}

/// The step to look at first, with all that is known about it.
void print_first(const diff::Diff& diff)
{
    const diff::StepDiff* first = diff.first_different();
    if (first == nullptr)
        return;
    const diff::StepDiff* wrong = diff.first_wrong();
    const diff::StepDiff& shown = wrong != nullptr ? *wrong : *first;
    if (diff.between)
        print("last right: {}; first wrong: {}\n",
              diff.between->last_right ? text_of(*diff.between->last_right) : "nothing is known to be",
              text_of(diff.between->first_wrong));
    else if (shown.origin)
        print_origin(*shown.origin, wrong != nullptr);
    const std::string alias = shown.mine == shown.step->path ? "" : " (" + shown.mine + ")";
    print("first {}: {}{} {}\n", wrong == nullptr ? "difference" : "wrong step", shown.step->path, alias,
          shown.message);
    if (has_numbers(shown))
        print_distance(shown, diff.type);
    if (!shown.through.empty())
        print("  or in a step before it that MINE does not have: {}\n", shortened(shown.through, 6));
}

std::string inherited_text(const diff::StepDiff& step)
{
    const diff::Distance& distance = step.distance;
    std::string text = fmt::format("off by {:.3g} at most", distance.absolute);
    if (distance.nans > 0)
        text = fmt::format("is NaN in {} of its numbers", distance.nans);
    else if (distance.infinities > 0)
        text = fmt::format("is infinite in {} of its numbers", distance.infinities);
    return step.layout.empty() ? text : fmt::format("{}; {}", text, step.layout);
}

/// A path with its numbers left open: layers.{i}.norm{i}.variance.
std::string without_numbers(const std::string& path)
{
    std::string text;
    for (const char c : path) {
        const bool is_digit = c >= '0' && c <= '9';
        if (!is_digit)
            text += c;
        else if (!text.ends_with("{i}"))
            text += "{i}";
    }
    return text;
}

/// Steps of one verdict in all layers and heads: one cause is one line.
struct Alike {
    const diff::StepDiff* first;
    std::string path;
    std::size_t count = 1;
};

/// The steps that differ, but for the one that was shown.
std::vector<Alike> others_of(const diff::Diff& diff)
{
    const diff::StepDiff* wrong = diff.first_wrong();
    const diff::StepDiff* shown = wrong != nullptr ? wrong : diff.first_different();
    std::vector<Alike> groups;
    for (const diff::StepDiff& step : diff.steps) {
        if ((step.passed() && step.verdict != diff::DiffVerdict::no_effect) || &step == shown)
            continue;
        const std::string path = without_numbers(step.step->path);
        const auto group = std::ranges::find_if(
            groups, [&](const Alike& one) { return one.first->verdict == step.verdict && one.path == path; });
        if (group == groups.end())
            groups.push_back({&step, path});
        else
            ++group->count;
    }
    return groups;
}

void print_others(const diff::Diff& diff)
{
    constexpr std::size_t most = 30;
    const std::vector<Alike> groups = others_of(diff);
    for (std::size_t i = 0; i < std::min(most, groups.size()); ++i) {
        const diff::StepDiff& step = *groups[i].first;
        const std::string numbers =
            has_numbers(step) && step.verdict == diff::DiffVerdict::inherited ? inherited_text(step) : step.message;
        print("{:<9}  {}: {}{}{}\n", name_of(step.verdict),
              step.step->path + (has_numbers(step) ? bracketed(step.distance.worst) : ""), numbers,
              step.origin ? "; " + text_of(*step.origin) : "",
              groups[i].count > 1 ? fmt::format("; and {} more {}", groups[i].count - 1, groups[i].path) : "");
    }
    if (groups.size() > most)
        print("{:<9}  and {} more\n", "", groups.size() - most);
}

/// The noisiest of the steps that are fine.
void print_noise(const diff::Diff& diff)
{
    const diff::StepDiff* worst = nullptr;
    for (const diff::StepDiff& step : diff.steps)
        if (step.verdict == diff::DiffVerdict::noise &&
            (worst == nullptr || step.distance.absolute > worst->distance.absolute))
            worst = &step;
    if (worst != nullptr)
        print("noise: at most {:.3g}, in {}; {:.3g} relative\n", worst->distance.absolute, worst->step->path,
              worst->distance.relative);
}

/// What was found, one line for all layers.
void print_found(const diff::Diff& diff)
{
    std::vector<std::pair<const diff::Found*, std::size_t>> groups;
    const auto text_of = [](const diff::Found& found) {
        return fmt::format("found {}: {} = {}{}", found.how, found.mine, found.step,
                           found.layout.empty() ? "" : " as " + found.layout);
    };
    for (const diff::Found& found : diff.matched) {
        const std::string text = without_numbers(text_of(found));
        const auto group =
            std::ranges::find_if(groups, [&](const auto& one) { return without_numbers(text_of(*one.first)) == text; });
        if (group == groups.end())
            groups.emplace_back(&found, 0);
        else
            ++group->second;
    }
    for (const auto& [found, more] : groups)
        print("{}{}\n", text_of(*found),
              more == 0 ? "" : fmt::format("; and {} more {}", more, without_numbers(found->mine)));
}

void print_names(const diff::Diff& diff)
{
    print_found(diff);
    if (!diff.missing.empty())
        print("{}: {} steps that MINE does not have: {}\n", diff.missing_fails ? "missing" : "not compared",
              diff.missing.size(), shortened(diff.missing, 8));
    if (!diff.extra.empty())
        print("{}: {} arrays of MINE that are not a step of the reference: {}\n",
              diff.extra_fails ? "extra" : "not compared", diff.extra.size(), shortened(diff.extra, 8));
}

void print_power(const diff::Power& power, const diff::Diff& diff)
{
    if (power.times_off > 1)
        print("no number of {} is off by more than roundings can do, but in the mean they are off by {:.2g} times what "
              "roundings do\n",
              power.off_in, power.times_off);
    for (const diff::Diagnosis& nearer : power.nearer)
        print("within what roundings of {} can do, but nearer to {}: {}\n  {} = {} where {} is right\n",
              name_of(diff.type), nearer.pitfall->id, nearer.pitfall->sentence, nearer.steps.front()->path,
              nearer.formulas.front(), nearer.steps.front()->formula);
    const auto& [keys, queries, features, heads] = power.sizes;
    print("of {}{} mistakes that this program could make {} would be seen{}{}\n", power.is_cut ? "the first " : "",
          power.possible, power.seen,
          keys == 0 ? ""
                    : fmt::format(", at {} {}, {} {}, {} {} and {} {}", queries, queries == 1 ? "query" : "queries",
                                  keys, keys == 1 ? "key" : "keys", features, features == 1 ? "feature" : "features",
                                  heads, heads == 1 ? "head" : "heads"),
          power.save.empty() ? "" : fmt::format("; to see more, save {}", fmt::join(power.save, ", ")));
}

void report(const diff::Diff& diff, const Outcome& outcome, const std::vector<diff::Diagnosis>& diagnoses,
            const Request& request)
{
    print_first(diff);
    if (request.diagnoses)
        print_likely_mistakes(diff, diagnoses, request.options.everywhere);
    print_others(diff);
    print_names(diff);
    print_noise(diff);
    if (!diff.hint.empty())
        print("hint: {}\n", diff.hint);

    std::string counts;
    for (const diff::DiffVerdict verdict : enumerators<diff::DiffVerdict>)
        if (const std::size_t count = diff.count(verdict))
            counts += fmt::format(", {} {}", count, name_of(verdict));
    if (outcome.power)
        print_power(*outcome.power, diff);
    if (outcome.is_same && !diff.ledger.result.empty())
        print("the result, {}, was not among what was compared\n", diff.ledger.result);
    if (!outcome.is_different)
        for (const std::string& reason : diff.ledger.open)
            print("undecided: {}\n", reason);
    print("{}: {}: {} compared as {}{}\n", request.mine.string(), outcome.word(), diff.steps.size(), name_of(diff.type),
          counts);
}

// ------------------------------------------------------------------------------------------------ for machines

Json json_of(const diff::Origin& origin)
{
    return {{"file", origin.file}, {"line", origin.line}, {"variable", origin.variable}, {"function", origin.function}};
}

Json json_of(const diff::StepDiff& step)
{
    Json json{{"step", step.step->path},         {"mine", step.mine},         {"verdict", name_of(step.verdict)},
              {"message", step.message},         {"layout", step.layout},     {"formula", step.step->formula},
              {"shape", step.step->value.shape}, {"found_shape", step.shape}, {"through", step.through}};
    if (step.origin)
        json["origin"] = json_of(*step.origin);
    if (!has_numbers(step))
        return json;
    const auto numbers_of = [](const Array& array) {
        Json numbers = Json::array();
        for (const double number : array.values)
            numbers.push_back(json_of(number));
        return numbers;
    };
    const diff::Window& window = step.window;
    json["window"] = {{"begin", window.begin},
                      {"shape", window.expected.shape},
                      {"expected", numbers_of(window.expected)},
                      {"found", numbers_of(window.found)}};
    const diff::Distance& distance = step.distance;
    json["worst"] = {{"index", distance.worst},
                     {"place", step.place},
                     {"expected", json_of(distance.expected)},
                     {"found", json_of(distance.found)},
                     {"ulps", json_of(distance.ulps)},
                     {"typical", json_of(distance.typical)},
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

Json json_of(const diff::Diagnosis& diagnosis)
{
    Json steps = Json::array();
    for (const Step* step : diagnosis.steps)
        steps.push_back(step->path);
    return {{"id", diagnosis.pitfall->id},
            {"sentence", diagnosis.pitfall->sentence},
            {"link", diagnosis.pitfall->link},
            {"steps", steps},
            {"formula", diagnosis.formulas.front()},
            {"right", diagnosis.steps.front()->formula},
            {"alternatives", Json::array()},
            {"later", diagnosis.later == nullptr ? Json(nullptr) : Json(diagnosis.later->path)}};
}

Json json_of(const diff::Power& power)
{
    Json nearer = Json::array();
    for (const diff::Diagnosis& diagnosis : power.nearer)
        nearer.push_back(json_of(diagnosis));
    return {{"possible", power.possible},
            {"seen", power.seen},
            {"nearer", nearer},
            {"times_off", json_of(power.times_off)},
            {"off_in", power.off_in},
            {"save", power.save},
            {"is_cut", power.is_cut},
            {"sizes",
             {{"keys", power.sizes.keys},
              {"queries", power.sizes.queries},
              {"features", power.sizes.features},
              {"heads", power.sizes.heads}}}};
}

Json path_or_null(const diff::StepDiff* step) { return step == nullptr ? Json(nullptr) : Json(step->step->path); }

Json json_of(const diff::Diff& diff, const Outcome& outcome, const std::vector<diff::Diagnosis>& diagnoses,
             const Request& request)
{
    Json json{{"same", outcome.is_same},
              {"verdict", outcome.word()},
              {"type", name_of(diff.type)},
              {"first_different", path_or_null(diff.first_different())},
              {"first_wrong", path_or_null(diff.first_wrong())},
              {"between", nullptr},
              {"steps", Json::array()},
              {"missing", diff.missing},
              {"missing_fails", diff.missing_fails},
              {"extra", diff.extra},
              {"extra_fails", diff.extra_fails},
              {"compared",
               {{"results", diff.ledger.results},
                {"not_compared", diff.ledger.not_compared},
                {"missing_result", diff.ledger.result.empty() ? Json(nullptr) : Json(diff.ledger.result)},
                {"computed", diff.ledger.computed}}},
              {"why_undecided", outcome.is_different ? std::vector<std::string>{} : diff.ledger.open},
              {"hint", diff.hint}};
    if (diff.between)
        json["between"] = {
            {"last_right", diff.between->last_right ? json_of(*diff.between->last_right) : Json(nullptr)},
            {"first_wrong", json_of(diff.between->first_wrong)}};
    for (const diff::StepDiff& step : diff.steps)
        json["steps"].push_back(json_of(step));
    json["found"] = Json::array();
    for (const diff::Found& found : diff.matched)
        json["found"].push_back(
            {{"mine", found.mine}, {"step", found.step}, {"how", found.how}, {"layout", found.layout}});
    if (request.diagnoses) {
        json["looks_like"] = Json::array();
        for (const diff::Diagnosis& diagnosis : diagnoses)
            if (diagnosis.is_alternative)
                json["looks_like"].back()["alternatives"].push_back(diagnosis.pitfall->id);
            else
                json["looks_like"].push_back(json_of(diagnosis));
    }
    if (outcome.power)
        json["power"] = json_of(*outcome.power);
    return json;
}

// ------------------------------------------------------------------------------------------------ the command line

diff::NameRule read_rule(const std::string& text)
{
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
        throw Error(text, " is not of the form NAME=STEP");
    return {text.substr(0, equals), text.substr(equals + 1)};
}

/// Without a reference there are no steps that names could mean, and roundings are all that is allowed.
void expect_no_reference_needed(const Request& request)
{
    const diff::DiffOptions& options = request.options;
    const bool is_needed = !options.names.empty() || options.table || options.atol || options.rtol || options.type ||
                           options.all || options.everywhere || request.diagnoses || request.budget;
    if (is_needed)
        throw Error(request.reference.string(),
                    " is no trace, so that two runs are compared: only --json and --json-file go with that");
    if (is_trace(request.mine))
        throw Error(request.mine.string(), " is a trace, and ", request.reference.string(),
                    " is none: give the trace first");
}

int compare(const Request& request)
{
    expect_not_replaced("--json-file", request.json_file, {request.reference, request.mine});
    if (!is_trace(request.reference)) {
        expect_no_reference_needed(request);
        return diff_runs(request.reference, request.mine, request.for_machines, request.json_file);
    }
    if (request.options.everywhere && !request.diagnoses)
        throw Error("--everywhere has no effect without --diagnose");
    const BudgetScope budget{budget_for(request.budget, {request.reference, request.mine})};
    const Recording reference = files::read_trace(request.reference);
    const diff::Diff result = diff::compare(reference, request.mine, request.options);
    const std::vector<diff::Diagnosis> diagnoses =
        request.diagnoses ? diff::diagnose(result) : std::vector<diff::Diagnosis>();
    const Outcome outcome = outcome_of(result, request);
    if (!request.json_file.empty())
        files::write_file(request.json_file, json_text(json_of(result, outcome, diagnoses, request)));
    if (request.for_machines)
        print_json(json_of(result, outcome, diagnoses, request));
    else
        report(result, outcome, diagnoses, request);
    return outcome.exit_code();
}

const char* const description =
    R"(Each step that both have is
  equal      the same but for rounding in float64
  noise      off by no more than rounding, in the type that MINE was computed in
  no effect  other numbers, but the attention weights that follow are right: -1e9 for minus infinity
  layout     the right numbers in another order
  a bug      wrong by itself
  inherited  right for MINE's own operands: the cause is an earlier step
Equal, noise and no effect pass. Steps that MINE does not have and arrays that are no step are listed and pass, unless
--all is given. Arrays of MINE whose names are not a step's name are found by their numbers, in any layout, or else by
shape, place and name. How each was found is printed; --map overrides it.
MINE is undecided where its result, or the reference's, was not compared, or nothing that it computed: the report says why.
Where attn_record recorded MINE, the first wrong line is given, or between which lines the fault is.
Where nothing is wrong, each well-known mistake is made in the reference, to see whether what was compared would have
shown it: roundings over many steps that MINE does not have can be larger than what a mistake does. MINE is undecided
where most would have passed, or where one gives its numbers much better; the steps that would tell are listed.

Where the first file is no trace either, two runs of one's own are compared, without a reference. Their arrays are paired
by name, by place and by numbers; where one is a part of the other, as a sentence in a padded batch, that part is
compared. They are the same only where each result of both was compared; the first pair that is different is shown.

Exit codes: 0 the same, 1 different or undecided, 2 wrong usage or unusable input.
)";

FlagGroup name_flags(Request& request)
{
    Choices<const diff::NameTable*> tables;
    for (const diff::NameTable& table : diff::name_tables())
        tables.emplace_back(table.name, &table);
    const auto add_rule = [&request](const std::string& text) { request.options.names.push_back(read_rule(text)); };
    return {"Names",
            {{"--map",
              "NAME=STEP",
              {add_rule, true},
              "the array NAME of MINE is the reference's STEP; 'probs[..., {h}, :, :]=head.{h}.weights' splits an axis "
              "of heads"},
             {"--names", "", one_of(request.options.table, tables),
              "MINE has the names of a well-known program; docs/diff.md lists them"}}};
}

FlagGroup number_flags(Request& request)
{
    diff::DiffOptions& options = request.options;
    return {"Numbers",
            {{"--atol", "A", number(options.atol, NumberRange::from_zero),
              "allow this absolute difference, in place of the measured tolerance"},
             {"--rtol", "R", number(options.rtol, NumberRange::from_zero),
              "allow this fraction of the expected number, in addition to --atol"},
             {"--type", "", one_of(options.type),
              "the type that MINE was computed in (default: detected from its numbers)"}}};
}

} // namespace

Command diff_command()
{
    const auto request = std::make_shared<Request>();
    return {
        .name = "diff",
        .summary = "find the first step in which your program's numbers differ from a reference, or from another run",
        .details = description,
        .groups = {{"Arguments",
                    {{"REFERENCE.npz", "", request->reference,
                      "a trace, as --trace writes it; or another run, as MINE"},
                     {"MINE", "", request->mine, "a trace, an .npz of plain arrays, or a folder of .npy files"}}},
                   name_flags(*request),
                   number_flags(*request),
                   {"Verdict",
                    {{"--all", "", request->options.all, "fail also where MINE lacks a step or has other arrays"},
                     {"--diagnose", "", request->diagnoses, "name the well-known mistake in the first wrong step"},
                     {"--everywhere", "", request->options.everywhere,
                      "with --diagnose, make a mistake in all steps that it concerns and not in some, which is quick"},
                     {"--json", "", request->for_machines, "print JSON"},
                     {"--json-file", "FILE", request->json_file, "also write the JSON to this file"},
                     budget_flag(request->budget)}}},
        .run = [request] { return compare(*request); }};
}

} // namespace attn::cli
