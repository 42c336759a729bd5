// Which well-known mistake gives what MINE has.

#include "attn/diff/diff.hpp"

#include "attn/formula/expression.hpp"
#include "compare.hpp"
#include "world.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace attn {
namespace {

/// Steps that are computed by other formulas.
using Edits = std::map<std::size_t, std::string>;

/// What MINE would have had if some steps that it doesn't have had been computed otherwise.
class Altered {
public:
    /// @param open   steps that nobody has numbers of
    /// @param edits  among those; and where they end
    Altered(Diff::World& world, const std::set<std::size_t>& open, const Edits& edits)
        : world_(world), open_(open), edits_(edits)
    {
    }

    /// @throws FormulaError where it can't be computed
    Diff::World::Recomputed recompute(std::size_t step) { return world_.recomputed(both_of(step)); }

private:
    Diff::World::Both both_of(std::size_t step)
    {
        const auto edit = edits_.find(step);
        return world_.evaluate_both(
            step, edit == edits_.end() ? world_.reference[step].formula : edit->second,
            [&](std::size_t i) -> const Array& { return is_altered(i) ? computed(i).first : world_.plain(i); },
            [&](std::size_t i) -> const Array& { return is_altered(i) ? computed(i).second : world_.moved(i); });
    }

    const std::pair<Array, Array>& computed(std::size_t step)
    {
        const auto known = computed_.find(step);
        if (known != computed_.end())
            return known->second;
        Diff::World::Both both = both_of(step);
        Array moved = world_.computed_otherwise(step, both);
        return computed_.emplace(step, std::pair(std::move(both.plain.value), std::move(moved))).first->second;
    }

    bool is_altered(std::size_t step)
    {
        if (edits_.contains(step))
            return true;
        if (!open_.contains(step))
            return false;
        const auto known = altered_.find(step);
        if (known != altered_.end())
            return known->second;
        bool is_one = false;
        for (const std::size_t operand : world_.operands(step))
            is_one = is_one || is_altered(operand);
        return altered_[step] = is_one;
    }

    Diff::World& world_;
    const std::set<std::size_t>& open_;
    const Edits& edits_;
    std::map<std::size_t, std::pair<Array, Array>> computed_; ///< as they are, and with other roundings
    std::map<std::size_t, bool> altered_;
};

/// True for a step that is another one under a further name: "x = norm1.output".
bool is_copy(const Step& step) { return is_step_path(step.formula); }

/// A mistake, wherever it can be made.
Edits edits_of(const Pitfall& pitfall, const std::set<std::size_t>& steps, const Diff::World& world)
{
    Edits edits;
    for (const std::size_t step : steps) {
        const StepOf step_of = [&](std::string_view name) {
            auto number = world.names.resolve(step, name);
            while (number && is_copy(world.reference[*number]))
                number = world.names.resolve(*number, world.reference[*number].formula);
            return number ? &world.reference[*number] : nullptr;
        };
        if (auto formula = mistaken_formula(pitfall, world.reference[step], step_of))
            edits.emplace(step, std::move(*formula));
    }
    return edits;
}

/// What is wrong: a step's numbers.
struct Wrong {
    std::size_t step;
    Array found, right;
    std::set<std::size_t> before; ///< steps before it that nobody has numbers of
};

/// @return the mistakes that give what is wrong, made in the step or in those before it
std::vector<Diagnosis> mistakes_that_give(const Wrong& wrong, Diff::World& world)
{
    std::set<std::size_t> open = wrong.before;
    open.insert(wrong.step);
    std::vector<Diagnosis> diagnoses;
    for (const Pitfall& pitfall : pitfalls()) {
        const Edits edits = edits_of(pitfall, open, world);
        if (edits.empty())
            continue;
        try {
            const Diff::World::Recomputed mistaken = Altered(world, wrong.before, edits).recompute(wrong.step);
            if (!agrees(wrong.found, mistaken.value, mistaken.tolerance) ||
                agrees(wrong.right, mistaken.value, mistaken.tolerance))
                continue;
        } catch (const FormulaError&) {
            continue; // an operand is missing, or of another shape: then it was not this mistake
        }
        Diagnosis& diagnosis = diagnoses.emplace_back(Diagnosis{&pitfall, {}, edits.begin()->second});
        for (const auto& [number, formula] : edits)
            diagnosis.steps.push_back(&world.original(number));
    }
    return diagnoses;
}

/// The mistakes that give a wrong copy: those in a step that uses it which give what the wrong copy does there.
std::vector<Diagnosis> mistakes_in_use(std::size_t copy, Diff::World& world)
{
    const std::set<std::size_t> none;
    const Edits right{{copy, world.reference[copy].formula}};
    for (std::size_t step = copy + 1; step < world.reference.size(); ++step) {
        if (std::ranges::find(world.operands(step), copy) == world.operands(step).end())
            continue;
        auto found = mistakes_that_give(
            {step, world.recompute(step).value, Altered(world, none, right).recompute(step).value, {}}, world);
        if (!found.empty())
            return found;
    }
    return {};
}

} // namespace

std::vector<Diagnosis> diagnose(const Diff& diff)
{
    const StepDiff* wrong = diff.first_wrong() != nullptr ? diff.first_wrong() : diff.first_without_effect();
    if (wrong == nullptr || wrong->step->formula.empty())
        return {};
    Diff::World& world = *diff.world;
    const std::size_t step = world.names.find(wrong->step->path).value();
    const Array* found = world.claims.claims[static_cast<std::size_t>(wrong - diff.steps.data())].array;
    if (found == nullptr || found->shape != wrong->step->value.shape)
        return {};
    try {
        auto diagnoses =
            mistakes_that_give({step, *found, world.recompute(step).value, world.unknown_before(step)}, world);
        return diagnoses.empty() && is_copy(*wrong->step) ? mistakes_in_use(step, world) : diagnoses;
    } catch (const FormulaError&) {
        return {}; // the right numbers aren't known: an operand is missing, or of another shape
    }
}

} // namespace attn
