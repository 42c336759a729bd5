#include "model.hpp"

#include "attn/core/error.hpp"
#include "attn/core/utf8.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string_view>

namespace attn::show {
namespace {

Json options_json(const StepOptions& options)
{
    Json json = Json::array(); // pairs, in order: an object's key __proto__ means something in a script
    for (const auto& [name, text] : options)
        json.push_back({name, text});
    return json;
}

/// What is said of one step.
/// @param numbers  the run and the step whose numbers it has: another's, where they are the same
Json description(const ShownRun& run, std::size_t step, const Json& numbers)
{
    constexpr const char* types[] = {"real", "boolean", "integer"};
    const Step& described = run.outline().steps[step];
    Json json = {{"step", step},
                 {"path", described.path},
                 {"formula", described.formula},
                 {"links", Json::array()},
                 {"axes", described.axes},
                 {"module", described.module},
                 {"options", options_json(described.options)},
                 {"shape", described.value.shape},
                 {"type", types[static_cast<std::size_t>(described.value.type)]},
                 {"numbers", numbers}};
    const ReadFormula formula = run.read_formula(step);
    for (const FormulaLink& link : formula.links)
        json["links"].push_back({link.at, link.length, link.step});
    if (!formula.problem.empty())
        json["problem"] = formula.problem;
    return json;
}

// ------------------------------------------------------------------------------------------------ two runs

/// How far two tensors of one shape are apart; an infinity or NaN that only one of them has is infinitely far.
Json difference(const Array& first, const Array& second)
{
    if (first.shape != second.shape)
        return {{"kind", "shape"}};
    double largest = 0, size = 0;
    std::size_t at = 0;
    for (std::size_t i = 0; i < first.size(); ++i) {
        const double a = first.values[i], b = second.values[i];
        if (std::isfinite(a))
            size = std::max(size, std::abs(a));
        const bool same = a == b || (std::isnan(a) && std::isnan(b));
        const double apart = same                   ? 0
                             : std::isfinite(a - b) ? std::abs(a - b)
                                                    : std::numeric_limits<double>::infinity();
        if (apart > largest) {
            largest = apart;
            at = i;
        }
    }
    if (largest == 0)
        return {{"kind", "same"}};
    // A difference that rounding explains is shown, but is not where two runs part.
    const char* kind = largest <= 1e-9 * std::max(size, 1.0) ? "rounding" : "differs";
    return {{"kind", kind}, {"largest", exact_text(largest)}, {"at", index_at(at, first.shape)}};
}

Json compared(std::deque<ShownRun>& runs, std::size_t ours, std::size_t theirs)
{
    const Array& first = runs[0].value(ours);
    const Array& second = runs[1].value(theirs);
    const bool is_same = identical(first, second);
    return {{"step", description(runs[0], ours, {0, ours})},
            {"other", description(runs[1], theirs, is_same ? Json{0, ours} : Json{1, theirs})},
            {"difference", is_same ? Json{{"kind", "same"}} : difference(first, second)}};
}

std::map<std::string_view, std::size_t> numbers_by_path(const std::vector<Step>& steps)
{
    std::map<std::string_view, std::size_t> numbers;
    for (std::size_t i = 0; i < steps.size(); ++i)
        numbers.emplace(steps[i].path, i);
    return numbers;
}

/// The steps of both runs in one list: those of the first in order, and what only the second has where it has them.
Json merged(std::deque<ShownRun>& runs)
{
    const std::vector<Step>& steps = runs[0].outline().steps;
    const std::vector<Step>& others = runs[1].outline().steps;
    const auto ours = numbers_by_path(steps), theirs = numbers_by_path(others);
    std::map<std::string_view, std::vector<std::size_t>> following; // by the path of the step before them
    std::string_view last;
    for (std::size_t i = 0; i < others.size(); ++i)
        if (ours.contains(others[i].path))
            last = others[i].path;
        else
            following[last].push_back(i);

    Json list = Json::array();
    const auto add_extra = [&](std::string_view path) {
        for (const std::size_t i : following[path])
            list.push_back({{"other", description(runs[1], i, {1, i})}, {"difference", {{"kind", "extra"}}}});
    };
    add_extra("");
    for (std::size_t i = 0; i < steps.size(); ++i) {
        const auto found = theirs.find(steps[i].path);
        if (found == theirs.end())
            list.push_back({{"step", description(runs[0], i, {0, i})}, {"difference", {{"kind", "missing"}}}});
        else
            list.push_back(compared(runs, i, found->second));
        add_extra(steps[i].path);
    }
    return list;
}

Json listed(const ShownRun& run)
{
    Json list = Json::array();
    for (std::size_t i = 0; i < run.outline().steps.size(); ++i)
        list.push_back({{"step", description(run, i, {0, i})}});
    return list;
}

/// The other names of steps as [name, step's path], each once.
Json aliases_of(const std::deque<ShownRun>& runs)
{
    std::set<std::string_view> taken;
    for (const ShownRun& run : runs)
        for (const Step& step : run.outline().steps)
            taken.insert(step.path);
    Json list = Json::array();
    for (const ShownRun& run : runs)
        for (const Alias& alias : run.outline().aliases)
            if (taken.insert(alias.path).second)
                list.push_back({alias.path, alias.target});
    return list;
}

/// Labels that a browser lays out at once: of a longer one its beginning.
std::vector<std::string> shortened(std::vector<std::string> labels)
{
    constexpr std::size_t longest = 60; // characters
    for (std::string& label : labels) {
        std::size_t bytes = 0, characters = 0;
        for (; bytes < label.size() && characters < longest; ++characters)
            bytes += std::max<std::size_t>(utf8_length(std::string_view(label).substr(bytes)), 1);
        if (bytes < label.size())
            label.replace(bytes, std::string::npos, "…");
    }
    return labels;
}

// ------------------------------------------------------------------------------------------------ checks

/// True where some step has that axis with as many entries.
bool has_axis(const std::vector<Step>& steps, std::string_view letter, std::size_t size)
{
    for (const Step& step : steps)
        for (std::size_t axis = 0; axis < step.axes.size() && axis < step.value.rank(); ++axis)
            if (step.axes[axis] == letter && step.value.shape[axis] == size)
                return true;
    return false;
}

void expect_fitting(const std::vector<Step>& steps, const std::vector<std::string>& tokens, const std::string& letter)
{
    const std::string count = std::to_string(tokens.size());
    if (!tokens.empty() && !has_axis(steps, letter, tokens.size()))
        throw Error(count, " tokens for the axis ", letter, ", and no step has that axis with ", count, " entries");
}

void expect_usable(const std::deque<ShownRun>& runs, const TokenLabels& labels)
{
    if (runs.empty() || runs.size() > 2)
        throw Error("a page shows one trace or compares two, not ", runs.size());
    const std::vector<Step>& steps = runs[0].outline().steps;
    if (runs.size() == 2) {
        const auto ours = numbers_by_path(steps);
        if (std::ranges::none_of(runs[1].outline().steps, [&](const Step& step) { return ours.contains(step.path); }))
            throw Error(runs[0].title(), " and ", runs[1].title(), " have no step in common");
    }
    expect_fitting(steps, labels.n, "n");
    expect_fitting(steps, labels.m, "m");
}

} // namespace

Json model_of(std::deque<ShownRun>& runs, const TokenLabels& labels)
{
    expect_usable(runs, labels);
    Json model = {{"title", runs[0].title()},
                  {"tokens", shortened(labels.n)},
                  {"tokens_m", shortened(labels.m.empty() ? labels.n : labels.m)}};
    if (runs.size() == 2)
        model["other"] = runs[1].title();
    model["aliases"] = aliases_of(runs);
    model["steps"] = runs.size() == 2 ? merged(runs) : listed(runs[0]);
    return model;
}

} // namespace attn::show
