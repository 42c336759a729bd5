#pragma once

#include "compare.hpp"
#include "edits.hpp"
#include "world.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>

/// What MINE would have had with a mistake.
namespace attn::diff {

/// What is wrong: a step's numbers.
struct Wrong {
    std::size_t step;
    const Array& found;
    Array right;
    std::set<std::size_t> before; ///< steps before it whose numbers are unknown
    bool has_effect = true;       ///< or it differs, and nothing that follows does
    double roundings = 0;         ///< by how much roundings change right numbers, at most
};

/// An array with minus infinity where the right one has it.
inline Array without_fill(Array array, const Array& right)
{
    for (std::size_t i = 0; i < right.size() && array.shape == right.shape; ++i)
        if (right.values[i] == minus_infinity)
            array.values[i] = minus_infinity;
    return array;
}

/// True where two arrays have the same fill in masked places, but for what scores or roundings change of it.
inline bool has_fill_of(const Array& found, const Array& mistaken, const Array& right)
{
    constexpr double nearly = 0.01; // bfloat16 has three digits
    for (std::size_t i = 0; i < right.size() && found.shape == right.shape; ++i) {
        const double fill = mistaken.values[i], tolerance = std::isfinite(fill) ? nearly * std::abs(fill) : 0;
        if (right.values[i] == minus_infinity && !(times_off(found.values[i], fill, tolerance) <= 1))
            return false;
    }
    return true;
}

/// What MINE would have had if some steps that it doesn't have had been computed otherwise.
class Altered {
public:
    /// @param edits  of steps whose numbers are unknown, or of the wrong one
    Altered(Diff::World& world, const Wrong& wrong, const Edits& edits) : world_(world), wrong_(wrong), edits_(edits) {}

    /// The wrong step, as it would have been.
    /// @throws FormulaError where it can't be computed
    Array value()
    {
        return world_.evaluate_step(wrong_.step, formula_of(wrong_.step), plain_, &wrong_.found, false).value;
    }

    /// The steps that are altered, as they would have been; without those that can't be computed.
    std::map<std::string, Array, std::less<>> steps()
    {
        std::map<std::string, Array, std::less<>> result;
        for (const std::size_t step : wrong_.before)
            try {
                if (is_altered(step))
                    result.emplace(world_.reference[step].path, plain(step));
            } catch (const formula::FormulaError&) {
                under_way_.clear();
            }
        return result;
    }

    /// The same without what fills masked places, and with how far off right numbers can be: a fill of 1e10 says nothing about
    /// the numbers beside it.
    Diff::World::Recomputed recompute(const Array& right)
    {
        Diff::World::Both both =
            world_.evaluate_both(wrong_.step, formula_of(wrong_.step), plain_, moves_, &wrong_.found);
        both.plain.value = without_fill(std::move(both.plain.value), right);
        both.moved = without_fill(std::move(both.moved), right);
        return world_.recomputed(std::move(both), {});
    }

private:
    const std::string& formula_of(std::size_t step) const
    {
        const auto edit = edits_.find(step);
        return edit == edits_.end() ? world_.reference[step].formula : edit->second;
    }

    const Array& plain(std::size_t step)
    {
        if (!is_altered(step))
            return world_.plain(step);
        before(step, computed_, [this](std::size_t operand) { plain(operand); });
        const auto known = computed_.find(step);
        return known != computed_.end() ? known->second : compute(step, computed_, [&] {
            return world_.evaluate_step(step, formula_of(step), plain_, nullptr, false).value;
        });
    }

    const Array& moved(std::size_t step)
    {
        if (!is_altered(step))
            return world_.moved(step);
        if (world_.is_exact(step))
            return plain(step);
        before(step, moved_, [this](std::size_t operand) { moved(operand); });
        const auto known = moved_.find(step);
        return known != moved_.end() ? known->second : compute(step, moved_, [&] {
            return world_.computed_otherwise(step, world_.evaluate_step(step, formula_of(step), moves_));
        });
    }

    /// Computes what a step follows from, where that could nest too deeply. An edited formula need not use all of it, and what
    /// can't be computed stays under way.
    template <class Compute>
    void before(std::size_t step, const std::map<std::size_t, Array>& results, const Compute& compute)
    {
        constexpr std::size_t many = 2000;
        if (wrong_.before.size() < many)
            return;
        world_.steps.before(
            step,
            [&](std::size_t operand) {
                return !is_altered(operand) || results.contains(operand) || under_way_.contains(operand);
            },
            [&](std::size_t operand) {
                try {
                    compute(operand);
                } catch (const formula::FormulaError&) {
                }
            });
    }

    /// Edits can refer to later steps, and so in a circle.
    template <class Compute>
    const Array& compute(std::size_t step, std::map<std::size_t, Array>& results, const Compute& how)
    {
        if (!under_way_.insert(step).second)
            throw formula::FormulaError(formula_of(step), 0, "the step is computed from itself");
        const Array& result = results.emplace(step, how()).first->second;
        under_way_.erase(step);
        return result;
    }

    bool is_altered(std::size_t step)
    {
        if (edits_.contains(step))
            return true;
        if (!wrong_.before.contains(step))
            return false;
        const auto known = altered_.find(step);
        if (known != altered_.end())
            return known->second;
        world_.steps.before(
            step,
            [this](std::size_t operand) {
                return edits_.contains(operand) || !wrong_.before.contains(operand) || altered_.contains(operand);
            },
            [this](std::size_t operand) { is_altered(operand); });
        const bool is_one = std::ranges::any_of(world_.operands(step), [&](std::size_t i) { return is_altered(i); });
        return altered_[step] = is_one;
    }

    Diff::World& world_;
    const Wrong& wrong_;
    const Edits& edits_;
    const Diff::World::ArrayOf plain_ = [this](std::size_t step) -> const Array& { return plain(step); };
    const Diff::World::ArrayOf moves_ = [this](std::size_t step) -> const Array& { return moved(step); };
    std::map<std::size_t, Array> computed_, moved_; ///< as they are, and with other roundings
    std::map<std::size_t, bool> altered_;
    std::set<std::size_t> under_way_;
};

} // namespace attn::diff
