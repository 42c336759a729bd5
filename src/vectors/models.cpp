// What mistakes make of a whole model.

#include "attn/vectors/models.hpp"

#include "attn/formula/expression.hpp"
#include "attn/formula/recompute.hpp"
#include "attn/mistakes/head_scope.hpp"
#include "attn/mistakes/pitfalls.hpp"

#include <algorithm>
#include <set>

namespace attn::vectors {
namespace {

/// The formulas that a form changes, by the number of the step, and which of its edits that is.
using Made = std::map<std::size_t, std::pair<std::size_t, std::string>>;

/// The scope of a path without the numbers of layers and heads: "layers.self_attn.head.query_norm.".
std::string kind_of(std::string_view path)
{
    std::string kind;
    for (std::size_t end = path.find('.'); end != std::string_view::npos; end = path.find('.')) {
        if (!mistakes::is_number(path.substr(0, end)))
            kind += path.substr(0, end + 1);
        path.remove_prefix(end + 1);
    }
    return kind;
}

Made made_in(const Recording& trace, const formula::StepNames& names, const mistakes::PitfallForm& form,
             std::string_view value)
{
    Made made;
    for (std::size_t step = 0; step < trace.steps.size(); ++step) {
        const mistakes::StepOf step_of = [&](std::string_view name) {
            const auto found = names.resolve_any(step, name);
            return found ? &trace.steps[*found] : nullptr;
        };
        for (std::size_t i = 0; i < form.edits.size() && !made.contains(step); ++i)
            if (auto formula = mistakes::mistaken_formula(form.edits[i], value, trace.steps[step], step_of))
                made.emplace(step, std::pair(i, std::move(*formula)));
    }
    return made;
}

/// What a form changes: in all steps, and in those of each kind.
std::set<std::map<std::size_t, std::string>> choices_of(const Made& made, const mistakes::PitfallForm& form,
                                                        const Recording& trace)
{
    std::map<std::string, Made> groups;
    for (const auto& [step, edit] : made)
        for (const std::string& group : {std::string(), kind_of(trace.steps[step].path) + '.'})
            groups[group].emplace(step, edit);
    std::set<std::map<std::size_t, std::string>> choices;
    for (const auto& [name, group] : groups) {
        std::set<std::size_t> edits;
        std::map<std::size_t, std::string> formulas;
        for (const auto& [step, edit] : group) {
            edits.insert(edit.first);
            formulas.emplace(step, edit.second);
        }
        if (!form.needs_all_edits || edits.size() == form.edits.size())
            choices.insert(std::move(formulas));
    }
    return choices;
}

} // namespace

std::vector<MistakenResult> mistaken_results(const Recording& trace, std::string_view result)
{
    const std::size_t last = static_cast<std::size_t>(&trace.at(result) - trace.steps.data());
    const formula::Recomputation again(trace);
    std::vector<MistakenResult> all;
    for (const mistakes::Pitfall& pitfall : mistakes::pitfalls())
        for (const mistakes::PitfallForm& form : pitfall.forms)
            for (const std::string_view value : form.values)
                for (const auto& formulas : choices_of(made_in(trace, again.names(), form, value), form, trace))
                    try {
                        auto arrays = again.with({.formulas = formulas}, last);
                        const auto found = arrays.find(last);
                        if (found == arrays.end() || found->second.shape != trace.steps[last].value.shape ||
                            found->second.values == trace.steps[last].value.values)
                            continue;
                        MistakenResult one{std::string(pitfall.id), {}, std::move(found->second)};
                        for (const auto& [step, formula] : formulas)
                            one.formulas.emplace(trace.steps[step].path, formula);
                        all.push_back(std::move(one));
                    } catch (const formula::FormulaError&) {
                        continue; // it can't be made with these sizes
                    }
    return all;
}

} // namespace attn::vectors
