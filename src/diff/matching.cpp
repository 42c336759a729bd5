// Which step an array is, by its numbers: names and layouts are the program's own.

#include "matching.hpp"

#include "targets.hpp"

#include "attn/budget.hpp"
#include "attn/formula/evaluate.hpp"
#include "attn/formula/scope.hpp"
#include "compare.hpp"
#include "operands_first.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

namespace attn {
namespace {

// A step that follows from one that differs by less than this is taken to be the reference's.
constexpr double hardly_different = 1e-4;
// What can be a wrong array's step: so many of those that fit in size, from the last array that was found.
constexpr std::size_t most_candidates = 12;
// How many of the other arrays are asked whether they follow from it.
constexpr std::size_t most_followers = 3;

/// What MINE has for the steps of a reference, as far as its arrays are known.
class KnownSteps {
public:
    explicit KnownSteps(const Recording& reference) : steps_(reference.steps), names_(reference) {}

    void set(std::size_t step, const Array& array)
    {
        own_.insert_or_assign(step, array);
        forget();
    }

    void unset(std::size_t step)
    {
        own_.erase(step);
        forget();
    }

    bool has(std::size_t step) const { return own_.contains(step); }

    /// The steps before one that MINE has as the reference has it: none of them is wrong.
    std::set<std::size_t> innocent()
    {
        std::set<std::size_t> known;
        std::vector<std::size_t> open;
        for (const auto& [step, own] : own_)
            if (relative_distance(own, steps_[step].value) <= right_enough(own))
                open.push_back(step);
        while (!open.empty()) {
            const std::size_t step = open.back();
            open.pop_back();
            for (const std::size_t operand : operands(step))
                if (known.insert(operand).second)
                    open.push_back(operand);
        }
        return known;
    }

    /// True where a step follows from an array of MINE that is not the reference's.
    bool differs(std::size_t step)
    {
        const auto own = own_.find(step);
        if (own != own_.end())
            return relative_distance(own->second, steps_[step].value) > hardly_different;
        const auto known = differs_.find(step);
        if (known != differs_.end())
            return known->second;
        operands_first(
            step, [this](std::size_t at) -> const std::vector<std::size_t>& { return operands(at); },
            [this](std::size_t operand) { return own_.contains(operand) || differs_.contains(operand); },
            [this](std::size_t operand) { differs(operand); });
        bool is_other = false;
        for (const std::size_t operand : operands(step))
            is_other = is_other || differs(operand);
        return differs_[step] = is_other;
    }

    /// MINE's array of a step, or what follows for it; the reference's where that can't be computed.
    const Array& value(std::size_t step)
    {
        const auto own = own_.find(step);
        if (own != own_.end())
            return own->second;
        return differs(step) ? following(step) : steps_[step].value;
    }

    /// What a step's formula gives from what MINE has.
    const Array& following(std::size_t step)
    {
        const auto known = computed_.find(step);
        if (known != computed_.end())
            return known->second;
        operands_first(
            step, [this](std::size_t at) -> const std::vector<std::size_t>& { return operands(at); },
            [this](std::size_t operand) {
                return own_.contains(operand) || computed_.contains(operand) || !differs(operand);
            },
            [this](std::size_t operand) { following(operand); });
        Array result = steps_[step].value;
        try {
            const Lookup lookup = [&](std::string_view name) {
                const auto operand = names_.resolve(step, name);
                return operand ? &value(*operand) : nullptr;
            };
            Array computed = evaluate(steps_[step].formula, lookup).value;
            if (computed.shape == result.shape)
                result = std::move(computed);
        } catch (const FormulaError&) {
        }
        return computed_.emplace(step, std::move(result)).first->second;
    }

private:
    void forget()
    {
        computed_.clear();
        differs_.clear();
    }

    const std::vector<std::size_t>& operands(std::size_t step)
    {
        constexpr double operations = 100;
        spend(operations);
        const auto known = operands_.find(step);
        return known != operands_.end() ? known->second
                                        : operands_.emplace(step, operands_of(step, steps_, names_)).first->second;
    }

    const std::vector<Step>& steps_;
    StepNames names_;
    std::map<std::size_t, Array> own_, computed_;
    std::map<std::size_t, bool> differs_;
    std::map<std::size_t, std::vector<std::size_t>> operands_;
};

/// An array that stands for a target in some layout.
struct Placed {
    const Target* target = nullptr;
    Fit fit;
};

class Matcher {
public:
    Matcher(const Recording& reference, const ArrayViews& mine, const std::vector<std::string>& names, bool in_order,
            const Hypothesis& hypothesis)
        : steps_(reference.steps),
          targets_(targets_of(reference.steps)),
          known_(reference),
          names_(names),
          in_order_(in_order),
          hypothesis_(hypothesis),
          placed_(names.size())
    {
        for (const std::string& name : names)
            arrays_.push_back(mine.find(name)->second);
        const std::optional<std::size_t> output = StepNames(reference).find("output");
        for (const Target& target : targets_)
            if (target.steps.size() == 1 && (!output || target.first() == *output))
                result_ = &target; // what is called so; else the last step
    }

    void know(const std::vector<Claim>& claims)
    {
        for (const Claim& claim : claims)
            if (claim.array != nullptr && claim.array->shape == steps_[claim.step].value.shape)
                known_.set(claim.step, *claim.array);
    }

    std::vector<Match> matches()
    {
        for (std::size_t i = 0; i < names_.size(); ++i)
            if (is_tensor(*arrays_[i]) && !is_the_result(i))
                if (const auto right = nearest_right(i); right && !is_taken(*right->target))
                    place(i, right, "by its numbers");
        for (std::size_t i = 0; i < names_.size(); ++i)
            if (is_tensor(*arrays_[i]) && placed_[i].target == nullptr)
                place_other(i);
        return std::move(matches_);
    }

private:
    /// Masks, ids and lengths are not found by numbers: many steps have such numbers.
    static bool is_tensor(const Array& array)
    {
        return array.type == ElementType::real && array.size() > 1 && !std::ranges::all_of(array.values, is_whole);
    }

    /// A single array is taken for the result, even where it has another step's numbers.
    bool is_the_result(std::size_t i) const
    {
        return names_.size() == 1 && result_ != nullptr && !is_taken(*result_) && result_->size == arrays_[i]->size();
    }

    /// The free target that an array is nearest to, if it is near enough.
    /// @param value_of  the numbers of a step; nullptr where it can't be the one
    template <class ValueOf>
    std::optional<Placed> nearest(std::size_t i, const ValueOf& value_of)
    {
        std::optional<Placed> best;
        const double near = std::min(near_enough(*arrays_[i]), near_by_chance(arrays_[i]->size()));
        constexpr double operations = 10; // names are looked at only where sizes are the same
        spend(operations * static_cast<double>(targets_.size()));
        for (const Target& target : targets_) {
            if (!fits(i, target))
                continue;
            const auto value = stacked(target, value_of);
            const auto fit = value ? best_fit(*arrays_[i], target, *value) : std::nullopt;
            if (fit && fit->distance <= near && (!best || is_better({&target, *fit}, *best, i)))
                best = Placed{&target, *fit};
        }
        return best;
    }

    /// How near so few numbers have to be to a step's that hardly any other step's are so by chance.
    double near_by_chance(std::size_t numbers) const
    {
        constexpr double unlikely = 1e-3;
        return std::pow(unlikely / static_cast<double>(targets_.size()), 1 / static_cast<double>(numbers));
    }

    /// A target of as many numbers; what is called keys is not the values, whatever its numbers are.
    bool fits(std::size_t i, const Target& target) const
    {
        return target.size == arrays_[i]->size() && !contradicts(names_[i], target.text);
    }

    bool is_taken(const Target& target) const
    {
        return std::ranges::any_of(target.steps, [&](std::size_t step) { return known_.has(step); });
    }

    /// Equally near: one that no other array is, then the one that the array's name says.
    bool is_better(const Placed& one, const Placed& other, std::size_t i) const
    {
        constexpr double as_near = 1.5, rounding = 1e-15;
        if (one.fit.distance > as_near * other.fit.distance + rounding)
            return false;
        if (other.fit.distance > as_near * one.fit.distance + rounding)
            return true;
        const auto merits = [&](const Target& target) {
            return std::tuple(!is_of_other_layer(names_[i], target.text), !is_taken(target),
                              words_in_common(names_[i], target.text), !steps_[target.first()].formula.empty());
        };
        return merits(*one.target) > merits(*other.target);
    }

    void place(std::size_t i, const std::optional<Placed>& placed, std::string how)
    {
        if (!placed)
            return;
        placed_[i] = *placed;
        Match match{parts_of(i, *placed), {names_[i], placed->target->text, std::move(how), ""}};
        if (match.parts.front().array.shape != arrays_[i]->shape)
            match.found.layout = layout_text(*placed->target, placed->fit, arrays_[i]->shape);
        for (const Match::Part& part : match.parts)
            if (!known_.has(part.step))
                known_.set(part.step, part.array);
        matches_.push_back(std::move(match));
    }

    /// Takes back what was placed on free steps.
    void unplace(std::size_t i)
    {
        for (const std::size_t step : placed_[i].target->steps)
            known_.unset(step);
        placed_[i] = {};
        matches_.pop_back();
    }

    std::vector<Match::Part> parts_of(std::size_t i, const Placed& placed) const
    {
        std::vector<Match::Part> parts;
        const Array whole = in_target_layout(*arrays_[i], placed.fit);
        const Target& target = *placed.target;
        const std::size_t size = target.size / target.steps.size();
        for (std::size_t part = 0; part < target.steps.size(); ++part) {
            const auto begin = whole.values.begin() + static_cast<std::ptrdiff_t>(part * size);
            parts.push_back({target.steps[part],
                             target.steps.size() == 1 ? "" : fmt::format("[part {}]", part),
                             {steps_[target.steps[part]].value.shape,
                              {begin, begin + static_cast<std::ptrdiff_t>(size)},
                              ElementType::real}});
        }
        return parts;
    }

    std::optional<Placed> nearest_right(std::size_t i)
    {
        return nearest(i, [&](std::size_t step) { return &steps_[step].value; });
    }

    /// What follows from MINE's own arrays, where these are not the reference's.
    std::optional<Placed> nearest_following(std::size_t i)
    {
        return nearest(i, [&](std::size_t step) { return known_.differs(step) ? &known_.value(step) : nullptr; });
    }

    /// What would follow from the mistake that explains what is wrong.
    std::optional<Placed> nearest_mistaken(std::size_t i)
    {
        return nearest(i, [&](std::size_t step) -> const Array* {
            const auto found = hypothesis_.mistaken.find(steps_[step].path);
            return found == hypothesis_.mistaken.end() ? nullptr : &found->second;
        });
    }

    /// An array that is no free step of the reference: right for what MINE has before it, a step once more, or wrong by
    /// itself. Where it has a step's name, it is that step. It can't be one that something right follows from.
    void place_other(std::size_t i)
    {
        const bool is_result = is_the_result(i);
        for (const auto& found : {nearest_following(i), nearest_mistaken(i)})
            if (found && !is_result && !is_taken(*found->target))
                return place(i, found, "by its numbers");
        if (const auto named = target_of_name(i))
            return place(i, named, "by its name");
        if (const auto result = as_result(i))
            return place(i, result, "by its place, the last");
        const auto again = is_result ? std::nullopt : nearest_right(i);
        const auto guess = hypothesis_.guesses ? best_guess(i) : std::nullopt;
        if (again && (!guess || words_in_common(names_[i], guess->target->text) == 0))
            place(i, again, "by its numbers");
        else if (guess)
            place(i, guess, "by its shape, place and name");
    }

    /// The layout in which an array is nearest to what MINE would have for a target.
    std::optional<Placed> placed_at(const Target& target, std::size_t i)
    {
        const auto value = stacked(target, [&](std::size_t step) { return &known_.value(step); });
        const auto fit = best_fit(*arrays_[i], target, *value);
        return fit ? std::optional(Placed{&target, *fit}) : std::nullopt;
    }

    /// The step whose name an array has.
    std::optional<Placed> target_of_name(std::size_t i)
    {
        for (const Target& target : targets_)
            if (target.text == names_[i] && target.size == arrays_[i]->size() && !is_taken(target))
                return placed_at(target, i);
        return std::nullopt;
    }

    /// The last array is the result, where MINE has no other one for that.
    std::optional<Placed> as_result(std::size_t i)
    {
        if (result_ == nullptr || i + 1 != names_.size() || !(in_order_ || names_.size() == 1))
            return std::nullopt;
        const Target& result = *result_;
        return fits(i, result) && !is_taken(result) ? placed_at(result, i) : std::nullopt;
    }

    /// The step that a wrong array fits best.
    std::optional<Placed> best_guess(std::size_t i)
    {
        std::vector<std::pair<double, Placed>> candidates;
        const std::set<std::size_t> innocent = known_.innocent();
        for (const Target& target : targets_) {
            const auto is_innocent = [&](std::size_t step) { return innocent.contains(step); };
            if (!fits(i, target) || is_taken(target) || steps_[target.first()].formula.empty() ||
                std::ranges::all_of(target.steps, is_innocent) || is_of_other_layer(names_[i], target.text) ||
                (is_ordered() && !is_between_neighbours(i, target)))
                continue;
            if (const auto placed = placed_at(target, i))
                candidates.emplace_back(likelihood(i, *placed), *placed);
        }
        const auto by_score = [](const auto& left, const auto& right) { return left.first > right.first; };
        std::ranges::stable_sort(candidates, by_score);
        candidates.resize(std::min(candidates.size(), most_candidates));
        constexpr double of_follower = 4;
        for (auto& [score, placed] : candidates)
            score += of_follower * static_cast<double>(followers_of(i, placed));
        std::ranges::stable_sort(candidates, by_score);
        return candidates.empty() ? std::nullopt : std::optional(candidates.front().second);
    }

    /// True where MINE has all that was found so far in the order of the steps.
    bool is_ordered() const
    {
        std::size_t last = 0;
        for (const Placed& placed : placed_) {
            if (placed.target == nullptr)
                continue;
            if (placed.target->first() < last)
                return false;
            last = placed.target->first();
        }
        return in_order_;
    }

    /// How well an array stands for a target by its name, its place, and how near it is.
    double likelihood(std::size_t i, const Placed& placed) const
    {
        constexpr double of_word = 2, of_end = 3, of_place = 1, of_shape = 0.5;
        const Target& target = *placed.target;
        double score = 1 / (1 + placed.fit.distance);
        score += of_word * static_cast<double>(words_in_common(names_[i], target.text));
        if (target.shape == arrays_[i]->shape)
            score += of_shape;
        if (i + 1 == names_.size() && &target == result_)
            score += of_end;
        if (in_order_ && is_between_neighbours(i, target))
            score += of_place;
        return score;
    }

    /// True where a target comes after the arrays that MINE has before this one, and before those after it.
    bool is_between_neighbours(std::size_t i, const Target& target) const
    {
        for (std::size_t k = 0; k < placed_.size(); ++k)
            if (placed_[k].target != nullptr && k != i && (placed_[k].target->first() < target.first()) != (k < i))
                return false;
        return true;
    }

    /// How many of the arrays after it would be right for what MINE has before them.
    std::size_t followers_of(std::size_t i, const Placed& placed)
    {
        place(i, placed, "");
        std::size_t asked = 0, follow = 0;
        for (std::size_t k = 0; k < names_.size() && asked < most_followers; ++k)
            if (k != i && is_tensor(*arrays_[k]) && placed_[k].target == nullptr) {
                ++asked;
                follow += nearest_following(k) ? 1 : 0;
            }
        unplace(i);
        return follow;
    }

    const std::vector<Step>& steps_;
    const std::vector<Target> targets_;
    const Target* result_ = nullptr;
    KnownSteps known_;
    const std::vector<std::string>& names_;
    bool in_order_;
    const Hypothesis& hypothesis_;
    std::vector<const Array*> arrays_;
    std::vector<Placed> placed_;
    std::vector<Match> matches_;
};

} // namespace

std::vector<Match> match_by_numbers(const Recording& reference, const ArrayViews& mine, const std::vector<Claim>& known,
                                    const std::vector<std::string>& names, bool in_order, const Hypothesis& hypothesis)
{
    Matcher matcher(reference, mine, names, in_order, hypothesis);
    matcher.know(known);
    return matcher.matches();
}

} // namespace attn
