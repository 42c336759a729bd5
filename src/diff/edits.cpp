// Where a mistake can be made: a form's edits, in all steps that they concern, in some, or in one.

#include "edits.hpp"

#include "attn/core/budget.hpp"
#include "attn/formula/expression.hpp"
#include "attn/mistakes/head_scope.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace attn::diff {
namespace {

/// The formula of a step with an edit made in it; nothing where it is not about such a step.
std::optional<std::string> edited(const mistakes::StepEdit& edit, std::string_view value, std::size_t step,
                                  const Diff::World& world)
{
    constexpr double operations = 50;
    spend(operations);
    const mistakes::StepOf step_of = [&](std::string_view name) {
        const auto number = world.names.resolve_any(step, name);
        return number ? &world.reference[*number] : nullptr;
    };
    return mistakes::mistaken_formula(edit, value, world.reference[step], step_of);
}

/// A path without the numbers of layers, heads and times: "decoder.layers..self_attn.".
std::string without_numbers(std::string_view path)
{
    std::string text;
    for (std::size_t end = path.find('.'); !path.empty(); end = path.find('.')) {
        const std::string_view word = path.substr(0, end);
        text += mistakes::is_number(word) ? "" : word;
        text += end == std::string_view::npos ? "" : ".";
        path.remove_prefix(end == std::string_view::npos ? path.size() : end + 1);
    }
    return text;
}

/// The formula of a step after one of a form's edits, and which one that is.
struct EditOf {
    std::size_t number;
    std::string formula;
};
using Made = std::map<std::size_t, EditOf>;

/// A form made in all steps that it concerns.
Made made_in(const mistakes::PitfallForm& form, std::string_view value, const std::set<std::size_t>& open,
             const Diff::World& world)
{
    Made made;
    for (const std::size_t step : open)
        for (std::size_t i = 0; i < form.edits.size() && !made.contains(step); ++i)
            if (auto formula = edited(form.edits[i], value, step, world))
                made.emplace(step, EditOf{i, std::move(*formula)});
    return made;
}

/// What a form changes; nothing where it needs edits that were not made.
Edits edits_of(const Made& made, const mistakes::PitfallForm& form)
{
    std::set<std::size_t> numbers;
    Edits edits;
    for (const auto& [step, edit] : made) {
        numbers.insert(edit.number);
        edits.emplace(step, edit.formula);
    }
    return !form.needs_all_edits || numbers.size() == form.edits.size() ? edits : Edits{};
}

/// What a step has in common with others in which a mistake can be made together with it.
std::vector<std::string> groups_of(const Step& step, std::size_t edit, Reach reach)
{
    const std::string_view path = step.path;
    const auto head = mistakes::head_scope(path);
    const std::string_view block = head ? head->before : path.substr(0, path.rfind('.') + 1);
    const std::size_t number = std::min(path.find_first_of("0123456789"), block.size());
    const std::size_t name = block.find_last_of('.', block.size() - std::min<std::size_t>(block.size(), 2)) + 1;
    switch (reach) {
    case Reach::all:
        return {"", fmt::format("edit {}", edit)};
    case Reach::kind: // a stack, the blocks of one kind there and everywhere, what one line computes
        return {std::string(block.substr(0, number)), without_numbers(block), fmt::format("* {}", block.substr(name)),
                fmt::format("= {}", step.formula)};
    case Reach::place: // what all layers, heads and times have; a layer, a block, a step
        return {without_numbers(path), std::string(block.substr(0, block.find('.', number) + 1)), std::string(block),
                fmt::format("step {}", path)};
    }
    return {};
}

} // namespace

Edits edits_of(const mistakes::PitfallForm& form, std::string_view value, const std::set<std::size_t>& open,
               const Diff::World& world)
{
    return edits_of(made_in(form, value, open, world), form);
}

Diagnosis diagnosis_of(const mistakes::Pitfall& pitfall, const Edits& edits, const Diff::World& world, double off)
{
    Diagnosis diagnosis{&pitfall, {}, {}, off};
    for (const auto& [step, formula] : edits) {
        diagnosis.steps.push_back(&world.original(step));
        diagnosis.formulas.push_back(formula);
    }
    return diagnosis;
}

std::vector<Edits> choices_of(const mistakes::PitfallForm& form, std::string_view value, Reach reach,
                              const std::set<std::size_t>& open, const Diff::World& world)
{
    constexpr std::size_t most_choices = 96;
    const Made made = made_in(form, value, open, world);
    std::vector<Edits> wider, choices;
    for (const Reach each : {Reach::all, Reach::kind, Reach::place}) {
        std::map<std::string, Made> groups;
        for (const auto& [step, edit] : made)
            for (const std::string& group : groups_of(world.reference[step], edit.number, each))
                groups[group].emplace(step, edit);
        for (const auto& [name, group] : groups) {
            Edits edits = edits_of(group, form);
            if (!edits.empty() && wider.size() < most_choices && std::ranges::find(wider, edits) == wider.end()) {
                wider.push_back(edits);
                if (each == reach)
                    choices.push_back(std::move(edits));
            }
        }
        if (each == reach)
            break;
    }
    return choices;
}

} // namespace attn::diff
