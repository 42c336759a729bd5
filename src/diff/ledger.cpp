// What was compared, and whether that is enough to call a program the same.

#include "ledger.hpp"

#include "attn/core/budget.hpp"
#include "name_vocabulary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

namespace attn::diff {
namespace {

bool is_gradient_of_input(const Diff::World& world, const std::string& path)
{
    return input_of_gradient(path, world.reference, world.names).has_value();
}

/// @param result  the step that all others lead to
bool stands_for_result(const Diff::World& world, std::size_t result, const Claim& claim)
{
    const std::string& path = world.reference[claim.step].path;
    return claim.step == result || path == last_token_path || is_gradient_of_input(world, path);
}

bool is_returned(const Diff::World& world, const Ledger& ledger, const Claim& claim)
{
    const auto mine = world.mine->views().find(world.mine->name_of(claim.mine));
    return mine != world.mine->views().end() && std::ranges::any_of(ledger.results, [&](const std::string& name) {
               return name == mine->first || same_numbers(*world.mine->views().find(name)->second, *mine->second);
           });
}

/// True where something that MINE returned is the result, and not only a step on the way to it.
bool returns_result(const Diff::World& world, const Ledger& ledger)
{
    const std::size_t result = result_of(world.recording);
    return std::ranges::any_of(world.claims.claims, [&](const Claim& claim) {
        return stands_for_result(world, result, claim) && is_returned(world, ledger, claim);
    });
}

/// What MINE returned on the way from the result to a further one, such as a pooler's, where it did not return that: the name of
/// its array.
std::optional<std::string> short_of_further_result(Diff::World& world, const Ledger& ledger)
{
    const std::size_t result = result_of(world.recording), last = world.reference.size() - 1;
    if (last == result || world.reference[last].path.starts_with(formula::gradient_scope))
        return std::nullopt;
    const auto before = [&](std::size_t step) {
        return world.steps.all_before({step}, [](std::size_t) { return false; });
    };
    const std::set<std::size_t> before_last = before(last);
    std::optional<std::string> found;
    for (const Claim& claim : world.claims.claims) {
        if ((claim.step != last && !before_last.contains(claim.step)) || !is_returned(world, ledger, claim))
            continue;
        if (claim.step == last)
            return std::nullopt;
        if (before(claim.step).contains(result))
            found = world.mine->name_of(claim.mine);
    }
    return found;
}

/// True where an array that is no step can be a wrong gradient of a weight: it is called a gradient, or nothing in MINE was
/// computed from it.
bool can_be_gradient(const Diff::World& world, const std::string& name)
{
    const MyGraph& graph = world.mine->graph();
    const bool is_last = graph.knows_reads() && !graph.reads(name).empty() && !graph.is_read(name);
    return (gradient_name(name) || is_last) && gradient_in_size_of(world, name) != nullptr;
}

/// The arrays of MINE that stand for steps, whole or in parts.
std::set<std::string, std::less<>> compared_arrays(const Diff::World& world)
{
    std::set<std::string, std::less<>> names;
    for (const Claim& claim : world.claims.claims)
        if (const std::string name(world.mine->name_of(claim.mine));
            claim.array != nullptr && world.mine->views().contains(name)) // a name can have brackets of its own
            names.insert(name);
    return names;
}

/// The name and place of an array: "loss (train.py:12)".
std::string text_of(const Diff::World& world, const std::string& name)
{
    const auto origin = world.mine->listing().origins.find(name);
    return origin == world.mine->listing().origins.end()
               ? name
               : fmt::format("{} ({}:{})", name, origin->second.file, origin->second.line);
}

/// The last array of MINE, where it says nothing of what its arrays were computed from: its result, as in two runs.
std::optional<std::string> last_array(const Diff::World& world)
{
    const MyGraph& graph = world.mine->graph();
    const auto can_be_it = [&](const std::string& name) {
        return world.mine->views().find(name)->second->type == ElementType::real && !gradient_name(name);
    };
    const auto last = std::ranges::find_if(graph.order().rbegin(), graph.order().rend(), can_be_it);
    return graph.knows_reads() || last == graph.order().rend() ? std::nullopt : std::optional(*last);
}

/// True where MINE can have the result among the arrays that are no step: it was recorded whole, all others have a step's name, so
/// that one can be misspelt, or one has as many numbers.
bool can_have_result(const Diff& diff, const DiffOptions& options)
{
    const Diff::World& world = *diff.world;
    const std::size_t size = world.reference[result_of(world.recording)].value.size();
    const bool has_own_names = options.table != nullptr || !diff.matched.empty();
    const auto has_its_size = [&](const std::string& name) {
        return world.mine->views().find(name)->second->size() == size;
    };
    return !diff.extra.empty() &&
           (!world.mine->listing().origins.empty() || !has_own_names || std::ranges::any_of(diff.extra, has_its_size));
}

} // namespace

const Step* gradient_in_size_of(const Diff::World& world, const std::string& name)
{
    constexpr std::size_t packed = 3;
    const Array& array = *world.mine->views().find(name)->second;
    std::size_t thirds = 0;
    for (std::size_t i = 0; i < world.reference.size() && array.type == ElementType::real; ++i) {
        const Step& step = world.reference[i];
        if (world.known[i].is_claimed || !is_gradient_of_input(world, step.path))
            continue;
        thirds += step.value.size() * packed == array.size() ? 1 : 0;
        if (step.value.size() == array.size() || thirds == packed)
            return &step;
    }
    return nullptr;
}

bool has_result(const Diff& diff)
{
    const Diff::World& world = *diff.world;
    const std::size_t result = result_of(world.recording);
    return std::ranges::any_of(world.claims.claims,
                               [&](const Claim& claim) { return stands_for_result(world, result, claim); }) &&
           std::ranges::none_of(diff.extra, [&](const std::string& name) { return can_be_gradient(world, name); });
}

Ledger ledger_of(const Diff& diff, const DiffOptions& options)
{
    const Diff::World& world = *diff.world;
    const Listing& listing = world.mine->listing();
    Ledger ledger;
    for (const StepDiff& step : diff.steps)
        ledger.computed += step.step->formula.empty() ? 0 : 1;
    if (diff.steps.empty())
        ledger.open.emplace_back(
            "nothing in common: no array of MINE is a step of the reference; --names or --map translate names");
    else if (ledger.computed == 0)
        ledger.open.emplace_back("only what was given was compared, nothing that MINE computed");
    if (world.is_cut)
        ledger.open.push_back(fmt::format(
            "the budget of {} billion operations was spent before all was compared: --budget N raises it to N billion",
            current_budget()->size()));
    if (!listing.incomplete.empty())
        ledger.open.push_back("the recording is not complete: " + listing.incomplete);

    // What the recorded call returned, each of several.
    const auto compared = compared_arrays(world);
    const auto is_compared = [&](const std::string& name) {
        const Array& array = *world.mine->views().find(name)->second; // which can stand there under other names, too
        return std::ranges::any_of(compared, [&](const std::string& other) {
            return other == name || same_numbers(*world.mine->views().find(other)->second, array);
        });
    };
    for (const std::string& name : listing.results) {
        if (!world.mine->views().contains(name))
            ledger.open.push_back(fmt::format("{}, which MINE returned, was not recorded", name));
        else if (is_compared(name))
            ledger.results.push_back(name);
        else
            ledger.not_compared.push_back(name);
    }
    for (const std::string& name : ledger.not_compared)
        ledger.open.push_back(
            fmt::format("{}, which MINE returned, was not compared: it is no step of the reference, or "
                        "--map {}=STEP says which",
                        text_of(world, name), name));

    if (diff.steps.empty())
        return ledger;
    if (!ledger.results.empty() && ledger.not_compared.empty() && has_result(diff) && !returns_result(world, ledger))
        ledger.open.push_back(fmt::format("MINE computed the result, {}, and returned {}, which is a step before it",
                                          world.reference[result_of(world.recording)].path,
                                          fmt::join(ledger.results, " and ")));
    if (const auto returned = short_of_further_result(*diff.world, ledger))
        ledger.open.push_back(fmt::format("MINE returned {}, which is a step before a further result, {}", *returned,
                                          world.reference.back().path));
    if (const auto last = listing.results.empty() ? last_array(world) : std::nullopt;
        last && std::ranges::count(diff.extra, *last) > 0) {
        ledger.not_compared.push_back(*last);
        ledger.open.push_back(fmt::format("{0}, the last array of MINE, can be its result, and was not compared: "
                                          "--map {0}=STEP says which it is; what is no result is saved before it, or "
                                          "left out",
                                          *last));
    }
    // Where MINE says nothing of what its arrays were computed from, any of that size can be a gradient.
    const auto gradient = std::ranges::find_if(diff.extra, [&](const std::string& name) {
        return world.mine->graph().knows_reads() ? can_be_gradient(world, name)
                                                 : gradient_in_size_of(world, name) != nullptr;
    });
    if (gradient != diff.extra.end())
        ledger.open.push_back(fmt::format("{0} can be {1}, and was not compared: --map {0}={1} compares them",
                                          *gradient, gradient_in_size_of(world, *gradient)->path));
    else if (!has_result(diff))
        ledger.result = world.reference[result_of(world.recording)].path;
    if (!ledger.result.empty() && can_have_result(diff, options))
        ledger.open.push_back(fmt::format("the result, {0}, was not compared: no array of MINE has its numbers or its "
                                          "name, or --map NAME={0} says which",
                                          ledger.result));
    return ledger;
}

} // namespace attn::diff
