// Which well-known mistake gives what MINE has.

#include "attn/diff/diff.hpp"

#include "attn/formula/expression.hpp"
#include "compare.hpp"
#include "world.hpp"

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

/// A mistake, wherever it can be made.
Edits edits_of(const Pitfall& pitfall, const std::set<std::size_t>& steps, const std::vector<Step>& reference)
{
    Edits edits;
    for (const std::size_t step : steps)
        if (auto formula = mistaken_formula(pitfall, reference[step]))
            edits.emplace(step, std::move(*formula));
    return edits;
}

/// What a step is wrong by: an array that MINE has, or what a step gives that MINE's wrong operand goes into.
struct Wrong {
    std::size_t step;
    Array value;
};

/// @return the mistakes that give what is wrong, made in the step or in those before it that nobody has numbers of
std::vector<Diagnosis> mistakes_that_give(const Wrong& wrong, Diff::World& world)
{
    const std::set<std::size_t> before = world.unknown_before(wrong.step);
    std::set<std::size_t> open = before;
    open.insert(wrong.step);
    std::vector<Diagnosis> diagnoses;
    for (const Pitfall& pitfall : pitfalls()) {
        const Edits edits = edits_of(pitfall, open, world.reference);
        if (edits.empty())
            continue;
        try {
            const Diff::World::Recomputed mistaken = Altered(world, before, edits).recompute(wrong.step);
            if (!agrees(wrong.value, mistaken.value, mistaken.tolerance) ||
                agrees(world.recompute(wrong.step).value, mistaken.value, mistaken.tolerance))
                continue;
        } catch (const FormulaError&) {
            continue; // an operand is missing, or of another shape: then it was not this mistake
        }
        Diagnosis& diagnosis = diagnoses.emplace_back(Diagnosis{&pitfall, {}, edits.begin()->second});
        for (const auto& [number, formula] : edits)
            diagnosis.steps.push_back(&world.reference[number]);
    }
    return diagnoses;
}

} // namespace

std::vector<Diagnosis> diagnose(const Diff& diff)
{
    const StepDiff* wrong = diff.first_wrong();
    if (wrong == nullptr || wrong->step->formula.empty())
        return {};
    Diff::World& world = *diff.world;
    const std::size_t step = world.names.find(wrong->step->path).value();
    const Array* found = world.claims.claims[static_cast<std::size_t>(wrong - diff.steps.data())].array;
    if (found == nullptr || found->shape != wrong->step->value.shape)
        return {};
    return mistakes_that_give({step, *found}, world);
}

} // namespace attn
