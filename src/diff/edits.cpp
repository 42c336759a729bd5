// Where a mistake can be made: a form's edits, in all steps that they concern, in some, or in one.

#include "edits.hpp"

#include "attn/core/budget.hpp"
#include "attn/formula/expression.hpp"
#include "attn/mistakes/head_scope.hpp"

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

/// The scope of a step, without the number of its head: "layers.0.self_attn.".
std::string_view scope_of(const Step& step)
{
    const auto head = mistakes::head_scope(step.path);
    return head ? head->before : std::string_view(step.path).substr(0, step.path.rfind('.') + 1);
}

/// A path without its numbers: "grad.step..hidden".
std::string without_numbers(std::string path)
{
    std::erase_if(path, [](char c) { return c >= '0' && c <= '9'; });
    return path;
}

/// A form made in all steps that it concerns.
struct Made {
    Edits edits;
    std::map<std::size_t, std::size_t> by; ///< which of the form's edits, by step
};

Made made_in(const mistakes::PitfallForm& form, std::string_view value, const std::set<std::size_t>& open,
             const Diff::World& world)
{
    Made made;
    for (const std::size_t step : open)
        for (std::size_t i = 0; i < form.edits.size(); ++i)
            if (auto formula = edited(form.edits[i], value, step, world)) {
                made.edits.emplace(step, std::move(*formula));
                made.by.emplace(step, i);
                break;
            }
    return made;
}

/// True where all of a form's edits were made, if it needs them all.
bool has_all_edits(const Made& made, const mistakes::PitfallForm& form)
{
    std::set<std::size_t> kinds;
    for (const auto& [step, edit] : made.by)
        kinds.insert(edit);
    return !form.needs_all_edits || kinds.size() == form.edits.size();
}

} // namespace

bool is_gradient(const Step& step) { return step.path.starts_with(formula::gradient_scope); }

Edits edits_of(const mistakes::PitfallForm& form, std::string_view value, const std::set<std::size_t>& open,
               const Diff::World& world)
{
    Made made = made_in(form, value, open, world);
    return has_all_edits(made, form) ? std::move(made.edits) : Edits{};
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
    const Made made = made_in(form, value, open, world);
    std::map<std::size_t, Edits> by_edit;
    std::map<std::string_view, Edits> by_scope;
    std::map<std::string, Edits> by_place; ///< what one layer, head or time has and all others, too
    for (const auto& [step, formula] : made.edits) {
        by_edit[made.by.at(step)].emplace(step, formula);
        by_scope[scope_of(world.reference[step])].emplace(step, formula);
        if (is_gradient(world.reference[step]))
            by_place[without_numbers(world.reference[step].path)].emplace(step, formula);
    }
    constexpr std::size_t most_choices = 96;
    std::vector<Edits> wide, narrow;
    const auto choose = [&](const Edits& edits, std::vector<Edits>& choices) {
        const bool is_new =
            std::ranges::find(wide, edits) == wide.end() && std::ranges::find(narrow, edits) == narrow.end();
        if (!edits.empty() && is_new && choices.size() < most_choices)
            choices.push_back(edits);
    };
    choose(made.edits, wide);
    if (form.needs_all_edits)
        return reach == Reach::wide && has_all_edits(made, form) ? wide : narrow;
    for (const auto& [edit, edits] : by_edit)
        choose(edits, wide);
    for (const auto& [place, edits] : by_place)
        choose(edits, narrow);
    for (const auto& [scope, edits] : by_scope)
        choose(edits, narrow);
    for (const auto& one : made.edits)
        choose({one}, narrow);
    return reach == Reach::wide ? wide : narrow;
}

} // namespace attn::diff
