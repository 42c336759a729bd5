// Which step an array is, by its numbers: names and layouts are the program's own.

#include "matching.hpp"

#include "known_steps.hpp"
#include "softmax.hpp"
#include "targets.hpp"
#include "words.hpp"

#include "attn/budget.hpp"
#include "attn/formula/evaluate.hpp"
#include "attn/formula/scope.hpp"
#include "compare.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <compare>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

namespace attn {
namespace {

// What can be a wrong array's step: so many of those that fit in size, from the last array that was found.
constexpr std::size_t most_candidates = 12;
// How many of the other arrays are asked whether they follow from it.
constexpr std::size_t most_followers = 3;
// A step that follows from one that differs by less than this is taken to be the reference's.
constexpr double hardly_different = 1e-4;

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
          masked_axes_(masked_axes(targets_)),
          step_names_(reference),
          known_(reference, step_names_),
          names_(names),
          in_order_(in_order),
          hypothesis_(hypothesis),
          has_gradients_(
              std::ranges::any_of(steps_, [](const Step& step) { return step.path.starts_with(gradient_scope); })),
          placed_(names.size())
    {
        for (const std::string& name : names) {
            arrays_.push_back(mine.find(name)->second);
            meanings_.push_back(has_gradients_ ? gradient_name(name).value_or(name) : name);
        }
        const std::optional<std::size_t> output = step_names_.find("output");
        for (const Target& target : targets_)
            if (target.steps.size() == 1 && (!output || target.first() == *output) && !has_gradients_)
                result_ = &target; // what is called so; else the last step
    }

    void know(const std::vector<Claim>& claims)
    {
        for (const Claim& claim : claims)
            if (claim.array != nullptr && claim.array->shape == steps_[claim.step].value.shape)
                know(claim.step, *claim.array);
    }

    std::vector<Match> matches()
    {
        place_used();
        place_right();
        if (has_gradients_) { // then what single users contribute, where what they add up to is right
            innocent_ = innocent();
            for (const std::size_t step : right())
                innocent_.insert(step);
            place_right();
        }
        for (const bool is_twin : {false, true})
            for (std::size_t i = 0; i < names_.size(); ++i)
                if (is_tensor(i) && placed_[i].target == nullptr && has_later_twin(i) == is_twin)
                    place_other(i);
        turn_maps();
        return std::move(matches_);
    }

private:
    void know(std::size_t step, const Array& own)
    {
        known_.set(step, &own, relative_distance(own, steps_[step].value) > hardly_different);
    }

    /// What MINE has as the reference has it.
    std::vector<std::size_t> right() const
    {
        std::vector<std::size_t> found;
        for (std::size_t step = 0; step < steps_.size(); ++step)
            if (const Array* own = known_.own(step);
                own != nullptr && relative_distance(*own, steps_[step].value) <= right_enough(*own))
                found.push_back(step);
        return found;
    }

    /// The steps before those: none of them is wrong.
    std::set<std::size_t> innocent()
    {
        return known_.all_before(right(), [](std::size_t) { return false; });
    }

    /// Takes arrays for the steps that MINE uses them as.
    void place_used()
    {
        for (std::size_t i = 0; i < names_.size(); ++i) {
            const auto used = hypothesis_.used_as.find(names_[i]);
            if (used == hypothesis_.used_as.end())
                continue;
            const std::size_t first = step_names_.find(used->second).value();
            for (const Target& target : targets_)
                if (placed_[i].target == nullptr && target.first() == first && fits(i, target))
                    place(i, placed_at(target, i), "by its use");
        }
    }

    void place_right()
    {
        for (std::size_t i = 0; i < names_.size(); ++i)
            if (is_tensor(i) && !is_zero(i) && !is_the_result(i) && placed_[i].target == nullptr)
                if (const auto right = nearest_right(i); right && !is_taken(*right->target))
                    place(i, right, found_by_numbers);
    }

    /// Masks, ids and lengths are not found by numbers: many steps have such numbers. A gradient says what it is.
    bool is_tensor(std::size_t i) const
    {
        const Array& array = *arrays_[i];
        const auto is_count = [](double number) { return !std::isnan(number) && is_whole(number); };
        return array.type == ElementType::real && array.size() > 1 && !hypothesis_.no_step.contains(names_[i]) &&
               (says_gradient(i) || !std::ranges::all_of(array.values, is_count));
    }

    bool is_zero(std::size_t i) const { return largest_of(*arrays_[i]) == 0; }

    /// True for an array that a later one has the numbers of: of a gradient that is overwritten, the later one is the whole.
    bool has_later_twin(std::size_t i) const
    {
        for (std::size_t k = i + 1; has_gradients_ && k < names_.size(); ++k)
            if (placed_[k].target == nullptr && arrays_[k]->values == arrays_[i]->values)
                return true;
        return false;
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
        return nearest(i, *arrays_[i], arrays_[i]->size(), value_of);
    }

    /// The same of other numbers in an array's place.
    /// @param telling  how many of them tell something
    template <class ValueOf>
    std::optional<Placed> nearest(std::size_t i, const Array& numbers, std::size_t telling, const ValueOf& value_of)
    {
        std::optional<Placed> best;
        const double near = std::min(near_enough(*arrays_[i]), near_by_chance(telling));
        constexpr double operations = 10; // names are looked at only where sizes are the same
        spend(operations * static_cast<double>(targets_.size()));
        for (const Target& target : targets_) {
            if (!fits(i, target))
                continue;
            const auto value = stacked(target, value_of);
            if (!value || !can_be_as_near(near, numbers, *value))
                continue;
            const auto fit = best_fit(numbers, target, *value);
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

    /// True for an array that is called a gradient: it is none of the steps forward.
    bool says_gradient(std::size_t i) const { return meanings_[i].starts_with(gradient_scope); }

    /// A target of as many numbers; what is called keys is not the values, whatever its numbers are.
    bool fits(std::size_t i, const Target& target) const
    {
        return target.size == arrays_[i]->size() && !contradicts(meanings_[i], target.text) &&
               (!says_gradient(i) || target.text.starts_with(gradient_scope)) && !is_overwritten_sum(target);
    }

    /// True for what one user adds to a gradient that can be wrong: an array with these numbers can be that gradient, without
    /// what the others add.
    bool is_overwritten_sum(const Target& target) const
    {
        const auto step = is_contribution(target) ? step_names_.find(target.text.substr(0, target.text.find(".from.")))
                                                  : std::nullopt;
        return step && !innocent_.contains(*step);
    }

    bool is_taken(const Target& target) const
    {
        return std::ranges::any_of(target.steps, [&](std::size_t step) { return known_.own(step) != nullptr; });
    }

    /// True where what MINE has for this target has an array's numbers: that is the same once more, perhaps in another layout.
    bool is_copied(const Target& target, std::size_t i) const
    {
        const auto sorted = [](std::vector<double> values) {
            const auto is_before = [](double a, double b) { return std::strong_order(a, b) < 0; }; // NaN, too
            std::ranges::sort(values, is_before);
            return values;
        };
        const auto own = stacked(target, [&](std::size_t step) { return known_.own(step); });
        return own && sorted(own->values) == sorted(arrays_[i]->values);
    }

    /// One that is not masked: it has more numbers to compare. Equally near: one that MINE has the same numbers for, then one
    /// that no other array is, then the one that the array's name says.
    bool is_better(const Placed& one, const Placed& other, std::size_t i) const
    {
        if (one.target->is_masked != other.target->is_masked)
            return !one.target->is_masked;
        constexpr double as_near = 1.5, rounding = 1e-15;
        if (one.fit.distance > as_near * other.fit.distance + rounding)
            return false;
        if (other.fit.distance > as_near * one.fit.distance + rounding)
            return true;
        // Of one token, the context is the value: two arrays have the same numbers there.
        const bool are_distinct = std::abs(one.fit.distance - other.fit.distance) > rounding;
        const auto merits = [&](const Target& target) {
            return std::tuple(!is_of_other_layer(names_[i], target.text), are_distinct && is_copied(target, i),
                              !is_taken(target), !is_contribution(target), words_in_common(meanings_[i], target.text),
                              !steps_[target.first()].formula.empty());
        };
        return merits(*one.target) > merits(*other.target);
    }

    void place(std::size_t i, const std::optional<Placed>& placed, std::string_view how)
    {
        if (placed)
            place(i, *placed, how, parts_of(i, *placed));
    }

    /// The same of scores, without the shift of each row.
    void place_shifted(std::size_t i, const Placed& placed)
    {
        std::vector<Match::Part> parts = parts_of(i, placed);
        for (Match::Part& part : parts)
            part.array = shifted(std::move(part.array), &steps_[part.step].value);
        place(i, placed, "by its numbers, but for a shift of each row", std::move(parts));
    }

    void place(std::size_t i, const Placed& placed, std::string_view how, std::vector<Match::Part> parts)
    {
        placed_[i] = placed;
        Match match{std::move(parts), {names_[i], placed.target->text, std::string(how), ""}};
        if (match.parts.front().array.shape != arrays_[i]->shape || !std::ranges::is_sorted(placed.fit.order))
            match.found.layout = layout_text(*placed.target, placed.fit, arrays_[i]->shape);
        matches_.push_back(std::move(match));
        for (const Match::Part& part : matches_.back().parts) // these stay where they are
            if (known_.own(part.step) == nullptr)
                know(part.step, part.array);
    }

    /// Takes back what was placed on free steps.
    void unplace(std::size_t i)
    {
        for (const std::size_t step : placed_[i].target->steps)
            known_.unset(step);
        placed_[i] = {};
        matches_.pop_back();
    }

    /// A program has all maps as (d_in, d_out), or all as (d_out, d_in). The numbers of a square one fit both ways.
    void turn_maps()
    {
        for (std::size_t i = 0; i < names_.size(); ++i) {
            const Placed& placed = placed_[i];
            if (!is_map_gradient(placed) || !is_square(*placed.target))
                continue;
            const std::optional<bool> others = are_maps_turned_but(i);
            if (others && *others != is_turned(placed.fit))
                turn(i);
        }
    }

    static bool is_map_gradient(const Placed& placed)
    {
        return placed.target != nullptr && is_map(*placed.target) && placed.target->text.starts_with(gradient_scope);
    }

    bool is_near(std::size_t i) const { return placed_[i].fit.distance <= near_enough(*arrays_[i]); }

    /// Whether MINE has maps as (d_out, d_in), as far as others tell than one gradient: the map itself, or right
    /// gradients that are all stored in the same way. To contradict right numbers, these have to be two.
    std::optional<bool> are_maps_turned_but(std::size_t i) const
    {
        const std::string of = placed_[i].target->text.substr(gradient_scope.size());
        std::size_t turned = 0, all = 0;
        for (std::size_t k = 0; k < placed_.size(); ++k)
            if (placed_[k].target != nullptr && placed_[k].target->text == of && is_near(k))
                return is_turned(placed_[k].fit);
        for (std::size_t k = 0; k < placed_.size(); ++k)
            if (k != i && is_map_gradient(placed_[k]) && is_near(k)) {
                all += placed_[k].target->steps.size();
                turned += is_turned(placed_[k].fit) ? placed_[k].target->steps.size() : 0;
            }
        const bool is_told = all > (is_near(i) ? 1 : 0) && (turned == 0 || turned == all);
        return is_told ? std::optional(turned == all) : std::nullopt;
    }

    /// Takes the array of a square map for one that is stored the other way round.
    void turn(std::size_t i)
    {
        swap_maps_axes(placed_[i].fit);
        const auto match = std::ranges::find(matches_, names_[i], [](const Match& one) { return one.found.mine; });
        match->parts = parts_of(i, placed_[i]);
        match->found.layout = layout_text(*placed_[i].target, placed_[i].fit, arrays_[i]->shape);
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

    /// The scores that an array has but for a shift of each row, of which softmax makes the same.
    std::optional<Placed> nearest_shifted(std::size_t i)
    {
        if (!scores_)
            scores_ = all_scores();
        const Array& array = *arrays_[i];
        const std::size_t rows = array.rank() == 0 ? 1 : array.size() / array.shape.back();
        const auto is_finite = [](double number) { return std::isfinite(number); };
        const auto finite = static_cast<std::size_t>(std::ranges::count_if(array.values, is_finite));
        if (scores_->empty() || finite <= rows)
            return std::nullopt; // of each row's largest nothing is left
        return nearest(i, shifted(array), finite - rows, [&, masked = is_masked(array)](std::size_t step) {
            const auto scores = scores_->find(step);
            return scores != scores_->end() && is_masked(scores->second) == masked ? &scores->second : nullptr;
        });
    }

    /// What each softmax is taken of, by step, with the largest number of each row at zero.
    std::map<std::size_t, Array> all_scores()
    {
        std::map<std::size_t, Array> scores;
        for (std::size_t step = 0; step < steps_.size(); ++step)
            if (is_softmax(steps_[step]))
                for (const std::size_t operand : known_.operands(step))
                    scores.emplace(operand, shifted(steps_[operand].value));
        return scores;
    }

    /// An array that is no free step of the reference: right for what MINE has before it, a step once more, or wrong by
    /// itself. Where it has a step's name, it is that step. It can't be one that something right follows from.
    void place_other(std::size_t i)
    {
        const bool is_result = is_the_result(i);
        for (const auto& found : {nearest_following(i), nearest_mistaken(i)})
            if (found && !is_result && !is_zero(i) && !is_taken(*found->target))
                return place(i, found, found_by_numbers);
        if (const auto named = target_of_name(i))
            return place(i, named, "by its name");
        if (const auto scores = is_result ? std::nullopt : nearest_shifted(i)) {
            if (!is_taken(*scores->target))
                place_shifted(i, *scores);
            return;
        }
        if (const auto result = as_result(i))
            return place(i, result, "by its place, the last");
        auto again = is_result || is_zero(i) ? std::nullopt : nearest_right(i);
        if (again && says_gradient(i) && words_in_common(meanings_[i], again->target->text) == 0)
            again.reset(); // dxhat, without the gain, is dout once more
        const auto guess = best_guess(i);
        if (again && (!guess || words_in_common(meanings_[i], guess->target->text) == 0))
            place(i, again, found_by_numbers);
        else if (guess)
            place(i, guess, "by its shape, place and name");
        else
            place_misshapen(i);
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
        const auto step = step_of_name(i);
        for (const Target& target : targets_)
            if ((target.text == meanings_[i] || (step && target.steps == std::vector{*step})) &&
                target.size == arrays_[i]->size() && !is_taken(target))
                return placed_at(target, i);
        return std::nullopt;
    }

    /// The gradient that an array is called: by its path, by the end of the only path with that end, or by its words.
    std::optional<std::size_t> step_of_name(std::size_t i) const
    {
        if (!says_gradient(i))
            return std::nullopt;
        if (const auto step = step_names_.find(meanings_[i]))
            return step;
        const std::string_view end = std::string_view(meanings_[i]).substr(gradient_scope.size() - 1); // with the dot
        const auto has_end = [&](const Target& target) { return target.text.ends_with(end); };
        const auto has_word = [&](const Target& target) {
            return is_summed(target) && words_in_common(meanings_[i], target.text) > 0;
        };
        const auto by_end = only_target(has_end);
        return by_end ? by_end : only_target(has_word);
    }

    /// True for the gradient of a weight or an input.
    bool is_gradient_of_input(const Target& target) const
    {
        const std::string& path = steps_[target.first()].path;
        const auto of =
            path.starts_with(gradient_scope) ? step_names_.find(path.substr(gradient_scope.size())) : std::nullopt;
        return of && steps_[*of].formula.empty();
    }

    /// True for the first gradient of MINE, and a target that all gradients begin from.
    bool begins_with(std::size_t i, const Target& target) const
    {
        const auto first = std::ranges::find_if(
            meanings_, [](const std::string& meaning) { return meaning.starts_with(gradient_scope); });
        return in_order_ && first - meanings_.begin() == static_cast<std::ptrdiff_t>(i) &&
               steps_[target.first()].formula.empty() && target.text.starts_with(gradient_scope);
    }

    /// True where MINE has gradients, or steps that are none.
    bool has_any(bool of_gradients) const
    {
        for (std::size_t step = 0; step < steps_.size(); ++step)
            if (known_.own(step) != nullptr && steps_[step].path.starts_with(gradient_scope) == of_gradients)
                return true;
        return false;
    }

    /// True for what one user of a step adds to its gradient.
    static bool is_contribution(const Target& target) { return target.text.find(".from.") != std::string::npos; }

    /// True for the gradient of a bias or a gain, which is summed over all tokens: its shape says what it is not.
    static bool is_summed(const Target& target)
    {
        return target.text.starts_with(gradient_scope) &&
               (target.text.ends_with("bias") || target.text.ends_with("gain"));
    }

    /// The only gradient of one step that fits.
    template <class Fits>
    std::optional<std::size_t> only_target(const Fits& fits) const
    {
        std::optional<std::size_t> only;
        for (const Target& target : targets_) {
            if (target.steps.size() > 1 || !target.text.starts_with(gradient_scope) || is_contribution(target) ||
                !fits(target))
                continue;
            if (only && *only != target.first())
                return std::nullopt;
            only = target.first();
        }
        return only;
    }

    /// An array that is called the gradient of a step and has another number of entries: it was not summed.
    void place_misshapen(std::size_t i)
    {
        const auto step = says_gradient(i) ? step_of_name(i) : std::nullopt;
        if (!step || known_.own(*step) != nullptr || steps_[*step].value.size() == arrays_[i]->size())
            return;
        matches_.push_back({{{*step, "", *arrays_[i]}}, {names_[i], steps_[*step].path, "by its name", ""}});
    }

    /// The last array is the result, where MINE has no other one for that.
    std::optional<Placed> as_result(std::size_t i)
    {
        if (result_ == nullptr || i + 1 != names_.size() || !(in_order_ || names_.size() == 1))
            return std::nullopt;
        const Target& result = *result_;
        return fits(i, result) && !is_taken(result) ? placed_at(result, i) : std::nullopt;
    }

    /// The gradient of an input or a weight that an array can be which is not called one: the only one of its size
    /// that MINE does not have, where all else that MINE has are gradients. A weight that has been trained on is none.
    std::optional<Placed> only_gradient_left(std::size_t i)
    {
        constexpr double trained_on = 0.5; // of the weight before
        std::optional<Placed> only;
        for (const Target& target : targets_) {
            if (!fits(i, target) || !is_gradient_of_input(target) || is_taken(target))
                continue;
            const std::size_t of = *step_names_.find(steps_[target.first()].path.substr(gradient_scope.size()));
            const auto weight = best_fit(*arrays_[i], target, steps_[of].value);
            const bool is_other = only && only->target->first() != target.first();
            if (is_other || (weight && weight->distance < trained_on))
                return std::nullopt;
            if (!only)
                only = placed_at(target, i);
        }
        return only;
    }

    /// The step that a wrong array fits best. Nothing follows from the gradient of a weight, so that all others are right tells
    /// nothing of it: it is looked for even where no other array is to be guessed.
    std::optional<Placed> best_guess(std::size_t i)
    {
        if (!says_gradient(i) && has_gradients_ && !has_any(false))
            return has_any(true) ? only_gradient_left(i) : std::nullopt;
        if (!says_gradient(i) && !hypothesis_.guesses)
            return std::nullopt;
        std::vector<std::pair<double, Placed>> candidates;
        const std::set<std::size_t> never = innocent();
        const bool masked = is_masked(*arrays_[i]);
        for (const Target& target : targets_) {
            const auto is_innocent = [&](std::size_t step) { return never.contains(step); };
            const bool is_unsaid =
                says_gradient(i) && (words_in_common(meanings_[i], target.text) == 0 ||
                                     !(hypothesis_.guesses || is_gradient_of_input(target) || begins_with(i, target)));
            if (!fits(i, target) || is_unsaid || is_taken(target) ||
                (steps_[target.first()].formula.empty() && !says_gradient(i)) ||
                std::ranges::all_of(target.steps, is_innocent) || is_of_other_layer(names_[i], target.text) ||
                is_outside_layers(i, target) || (masked && !can_be_masked(target)) ||
                (!says_gradient(i) && is_ordered() && !is_between_neighbours(i, target)))
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

    /// False for a target that is not over keys, as those are that the reference masks.
    bool can_be_masked(const Target& target) const
    {
        return masked_axes_.empty() || target.letters.empty() || masked_axes_.contains(target.letters.back());
    }

    /// True for a step outside the layers, where the array's name says which layer it is of.
    bool is_outside_layers(std::size_t i, const Target& target) const
    {
        const auto is_in_layer = [](std::string_view path) { return path.find("layers.") != std::string_view::npos; };
        return says_layer(names_[i]) && !is_in_layer(target.text) &&
               std::ranges::any_of(steps_, is_in_layer, &Step::path);
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
        score += of_word * static_cast<double>(words_in_common(meanings_[i], target.text));
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
            if (k != i && is_tensor(k) && placed_[k].target == nullptr) {
                ++asked;
                follow += nearest_following(k) ? 1 : 0;
            }
        unplace(i);
        return follow;
    }

    const std::vector<Step>& steps_;
    const std::vector<Target> targets_;
    const std::set<std::string> masked_axes_;
    std::optional<std::map<std::size_t, Array>> scores_; ///< all_scores(), once they were asked for
    const Target* result_ = nullptr;
    const StepNames step_names_;
    KnownSteps known_;
    const std::vector<std::string>& names_;
    bool in_order_;
    const Hypothesis& hypothesis_;
    const bool has_gradients_;
    std::set<std::size_t> innocent_; ///< steps that something right follows from
    std::vector<const Array*> arrays_;
    std::vector<std::string> meanings_; ///< the names, with "grad." in front of those that say so
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
