#include "alternatives.hpp"

#include "arrays.hpp"

#include "attn/formula/expression.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>

namespace attn::vectors {
namespace {

// Roundings of a result beside the largest number of its array, as attn diff has it.
constexpr double stored_roundings = 2;
// As many draws of roundings: what PyTorch computes is off by less than a third of the largest change (docs/vectors.md).
constexpr std::size_t draw_count = 8;

/// All steps as a program can have them that stores each in a type of fewer digits, and adds in float32 or better.
std::vector<Array> rounded_steps(const Recording& recording, const formula::StepNames& names, NumberType type,
                                 std::size_t draw)
{
    const double stored = roundoff_of(type);
    const formula::ErrorModel errors{std::min(stored, roundoff_of(NumberType::float32)), stored,
                                     formula::SumErrors::typical, true};
    std::vector<Array> arrays;
    for (const Step& step : recording.steps)
        arrays.push_back(step.value);
    for (std::size_t number = 0; number < arrays.size(); ++number) {
        const Step& step = recording.steps[number];
        if (step.formula.empty())
            continue;
        const formula::Lookup lookup = [&](std::string_view name) -> const Array* {
            const auto operand = names.resolve(number, name);
            return operand ? &arrays[*operand] : nullptr;
        };
        formula::Evaluated found = formula::evaluate(step.formula, lookup, errors);
        found.value.type = step.value.type;
        if (step.value.type == ElementType::real)
            for (std::size_t i = 0; i < found.value.size(); ++i) {
                double& value = found.value.values[i];
                value *= 1 + stored * formula::rounding_sign(draw, number, i);
                if (std::isfinite(found.error[i]))
                    value += formula::rounding_sign(draw, number, i + 1) * found.error[i];
            }
        arrays[number] = std::move(found.value);
    }
    return arrays;
}

double largest_move(const Array& from, const Array& to)
{
    double largest = 0;
    for (std::size_t i = 0; i < from.size(); ++i)
        if (const double move = std::abs(from.values[i] - to.values[i]); std::isfinite(move))
            largest = std::max(largest, move);
    return largest;
}

bool are_same(const std::vector<Output>& left, const std::vector<Output>& right, NumberType type)
{
    return std::ranges::equal(left, right, [&](const Output& one, const Output& other) {
        return one.name == other.name && is_same(one.value, other.value, other.tolerance.at(type));
    });
}

} // namespace

Alternatives::Alternatives(const Recording& recording, const std::vector<std::pair<std::string, std::string>>& outputs,
                           std::vector<std::size_t> rows)
    : recording_(recording),
      again_(recording),
      rows_(std::move(rows)),
      is_backward_(outputs.front().second.starts_with(formula::gradient_scope)),
      has_calls_(outputs.front().second.starts_with(scope_of(0)))
{
    for (const auto& [name, path] : outputs) {
        names_.push_back(name);
        results_.push_back(formula::find_step(recording, path));
    }
    right_ = measured();
}

std::vector<Output> Alternatives::measured() const
{
    std::vector<Output> outputs;
    for (std::size_t i = 0; i < results_.size(); ++i)
        outputs.push_back({names_[i], rows_of(recording_.steps[results_[i]].value, rows_), {}});
    for (const NumberType type : computed_types) {
        for (std::size_t draw = 1; draw <= draw_count; ++draw) {
            const std::vector<Array> rounded = rounded_steps(recording_, again_.names(), type, draw);
            for (std::size_t i = 0; i < results_.size(); ++i) {
                double& most = outputs[i].tolerance[type];
                most = std::max(most, largest_move(outputs[i].value, rows_of(rounded[results_[i]], rows_)));
            }
        }
        for (Output& output : outputs)
            output.tolerance[type] +=
                stored_roundings * roundoff_of(type) * largest_of(output.value) + smallest_of(type);
    }
    return outputs;
}

/// The results with changes. Where they are larger than the right ones, others can be further from them.
std::vector<Output> Alternatives::outputs_with(const formula::Changes& changes) const
{
    const formula::Recomputation::Arrays arrays = again_.with(changes);
    if (!keeps_shapes(changes, arrays))
        throw formula::FormulaError("", 0, "another shape");
    std::vector<Output> outputs;
    for (std::size_t i = 0; i < results_.size(); ++i) {
        const auto changed = arrays.find(results_[i]);
        outputs.push_back(right_[i]);
        if (changed == arrays.end())
            continue;
        outputs.back().value = rows_of(changed->second, rows_);
        const double growth = largest_of(outputs.back().value) / std::max(largest_of(right_[i].value), 1e-300);
        for (auto& [type, tolerance] : outputs.back().tolerance)
            tolerance *= std::max(growth, 1.0);
    }
    return outputs;
}

bool Alternatives::keeps_shapes(const formula::Changes& changes, const formula::Recomputation::Arrays& arrays) const
{
    const auto keeps = [&](std::size_t step) { return arrays.at(step).shape == recording_.steps[step].value.shape; };
    if (has_calls_) // where a step can have more tokens or fewer, and only a result can't
        return std::ranges::all_of(results_,
                                   [&](std::size_t result) { return !arrays.contains(result) || keeps(result); });
    return std::ranges::all_of(changes.formulas, [&](const auto& changed) { return keeps(changed.first); });
}

Alternative Alternatives::of(std::string name, const formula::Changes& changes) const
{
    Alternative result{std::move(name), {}, outputs_with(changes)};
    for (const auto& [step, formula] : changes.formulas)
        result.formulas.emplace(recording_.steps[step].path, formula);
    return result;
}

Alternative Alternatives::of_convention(const std::string& name,
                                        const std::map<std::string, std::string>& formulas) const
{
    formula::Changes changes;
    for (const auto& [end, formula] : formulas)
        for (std::size_t i = 0; i < recording_.steps.size(); ++i)
            if (const std::string& path = recording_.steps[i].path; path == end || path.ends_with("." + end))
                changes.formulas.emplace(i, formula);
    if (changes.formulas.empty())
        throw std::logic_error("the convention " + name + " is about no step");
    return of(name, changes);
}

std::optional<Alternative> Alternatives::of_edits(const mistakes::Pitfall& pitfall,
                                                  std::span<const mistakes::StepEdit> edits, std::string_view value,
                                                  bool needs_all) const
{
    formula::Changes changes;
    std::set<const mistakes::StepEdit*> made;
    for (std::size_t i = 0; i < recording_.steps.size(); ++i) {
        const Step& step = recording_.steps[i];
        if (is_backward_ != step.path.starts_with(formula::gradient_scope))
            continue; // a forward pass with a mistake has another backward pass
        for (const mistakes::StepEdit& edit : edits)
            if (auto formula = mistakes::mistaken_formula(edit, value, step, steps_before(i))) {
                changes.formulas.emplace(i, std::move(*formula));
                made.insert(&edit);
                break;
            }
    }
    if (made.empty() || (needs_all && made.size() != edits.size()))
        return std::nullopt;
    return differing(std::string(pitfall.id), changes);
}

std::optional<Alternative> Alternatives::differing(std::string name, const formula::Changes& changes) const
{
    try {
        Alternative found = of(std::move(name), changes);
        return are_same(found.outputs, right_, NumberType::float32) ? std::nullopt : std::optional(std::move(found));
    } catch (const formula::FormulaError&) {
        return std::nullopt; // it can't be made with these sizes
    }
}

mistakes::StepOf Alternatives::steps_before(std::size_t number) const
{
    return [this, number](std::string_view name) {
        const auto found = again_.names().resolve_any(number, name);
        return found ? &recording_.steps[*found] : nullptr;
    };
}

/// The mistaken formula for a step of a call; nothing where the edit is not about it.
std::optional<std::string> Alternatives::mistaken(const CallEdit& edit, const std::vector<CallNames>& calls,
                                                  std::size_t number) const
{
    const Step& step = recording_.steps[number];
    for (std::size_t call = 0; call < calls.size(); ++call) {
        if (!step.path.starts_with(scope_of(call)))
            continue;
        CallNames names = calls[call];
        names["scope"] = step.path.substr(scope_of(call).size(), step.path.rfind('.') + 1 - scope_of(call).size());
        const bool is_first = !names.contains("previous");
        if ((edit.calls == EditedCalls::first_of_request && !is_first) ||
            (edit.calls == EditedCalls::later && is_first))
            return std::nullopt;
        const auto right = with_names_of(names, edit.right), wrong = with_names_of(names, edit.mistaken);
        return right && wrong ? mistakes::mistaken_formula({edit.step, *right, *wrong}, "", step, steps_before(number))
                              : std::nullopt;
    }
    return std::nullopt;
}

std::vector<Alternative> Alternatives::of_calls(const std::vector<std::string>& ids,
                                                const std::vector<CallNames>& calls) const
{
    std::vector<Alternative> all;
    for (const std::string& id : ids) {
        formula::Changes changes;
        for (std::size_t i = 0; i < recording_.steps.size(); ++i)
            for (const CallEdit& edit : find_call_mistake(id).edits)
                if (auto formula = mistaken(edit, calls, i)) {
                    changes.formulas.emplace(i, std::move(*formula));
                    break;
                }
        if (changes.formulas.empty())
            throw std::logic_error("the mistake " + id + " is about no step of its calls");
        if (auto found = differing(id, changes))
            all.push_back(std::move(*found));
    }
    return all;
}

/// The first form of a mistake that can be made here and changes a result.
std::optional<Alternative> Alternatives::of_mistake(const mistakes::Pitfall& pitfall) const
{
    for (const mistakes::PitfallForm& form : pitfall.forms)
        for (const std::string_view value : form.values)
            if (auto found = of_edits(pitfall, form.edits, value, form.needs_all_edits))
                return found;
    return std::nullopt;
}

std::vector<Alternative> Alternatives::of_mistakes() const
{
    std::vector<Alternative> all;
    for (const mistakes::Pitfall& pitfall : mistakes::pitfalls())
        if (auto found = of_mistake(pitfall))
            all.push_back(std::move(*found));
    return all;
}

} // namespace attn::vectors
