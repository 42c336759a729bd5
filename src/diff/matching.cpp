// Which step an array is, by its numbers: names and layouts are the program's own.

#include "matching.hpp"

#include "placement.hpp"
#include "softmax.hpp"
#include "walk.hpp"

#include "attn/core/budget.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace attn::diff {
namespace {

// So many of the targets that a wrong array can be, the likeliest ones, are judged by what would follow from it.
constexpr std::size_t most_candidates = 12;
// How many of the other arrays are asked whether they follow from it.
constexpr std::size_t most_followers = 3;

bool is_in_layer(std::string_view path) { return path.find("layers.") != std::string_view::npos; }

/// Places arrays that do not say what they were computed from: first those that are sure.
class Matcher : public Placement {
public:
    using Placement::Placement;
    using Placement::take_matches;

    std::vector<Match> matches()
    {
        place_used();
        place_right();
        if (has_gradients_) {
            look_for_contributions();
            place_right();
        }
        for (const bool is_twin : {false, true})
            for (std::size_t i = 0; i < names_.size(); ++i)
                if (is_tensor(i) && !is_placed(i) && has_later_twin(i) == is_twin)
                    place_other(i);
        turn_maps();
        return take_matches();
    }

private:
    /// Takes arrays for the steps that MINE uses them as.
    void place_used()
    {
        for (std::size_t i = 0; i < names_.size(); ++i) {
            const auto used = hypothesis_.used_as.find(names_[i]);
            if (used == hypothesis_.used_as.end())
                continue;
            const std::size_t first = step_names_.find(used->second).value();
            for (const StepSet& target : targets_)
                if (!is_placed(i) && target.first() == first && fits(i, target))
                    place(i, placed_at(target, i), "by its use");
        }
    }

    void place_right()
    {
        for (std::size_t i = 0; i < names_.size(); ++i)
            if (is_tensor(i) && !is_zero(i) && !is_the_result(i) && !is_placed(i))
                if (const auto right = nearest_right(i); right && !is_taken(*right->target))
                    place(i, right, found_by_numbers);
    }

    /// True for an array that a later one has the numbers of: of a gradient that is overwritten, the later one is the whole.
    bool has_later_twin(std::size_t i) const
    {
        for (std::size_t k = i + 1; has_gradients_ && k < names_.size(); ++k)
            if (!is_placed(k) && arrays_[k]->values == arrays_[i]->values)
                return true;
        return false;
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
            place_unsummed(i);
    }

    /// The step whose name an array has.
    std::optional<Meaning> target_of_name(std::size_t i)
    {
        const auto step = step_of_name(i);
        for (const StepSet& target : targets_)
            if ((target.text == meanings_[i] || (step && target.steps == std::vector{*step})) &&
                target.size == arrays_[i]->size() && !is_taken(target))
                return placed_at(target, i);
        return std::nullopt;
    }

    /// The gradient that an array is called: by its path, or by its words.
    std::optional<std::size_t> step_of_name(std::size_t i) const
    {
        if (!says_gradient(i))
            return std::nullopt;
        if (const auto step = step_names_.find(meanings_[i]))
            return step;
        std::optional<std::size_t> only;
        for (const StepSet& target : targets_) {
            if (target.steps.size() > 1 || is_contribution(target) || !is_summed(target) ||
                words_in_common(meanings_[i], target.text) == 0)
                continue;
            if (only && *only != target.first())
                return std::nullopt;
            only = target.first();
        }
        return only;
    }

    /// True for the gradient of a bias or a gain, which is summed over all tokens: its shape says what it is not.
    static bool is_summed(const StepSet& target)
    {
        return target.text.starts_with(formula::gradient_scope) &&
               (target.text.ends_with("bias") || target.text.ends_with("gain"));
    }

    /// An array that is called the gradient of a step and has another number of entries: it was not summed.
    void place_unsummed(std::size_t i)
    {
        const auto step = says_gradient(i) ? step_of_name(i) : std::nullopt;
        if (step && own(*step) == nullptr && steps_[*step].value.size() != arrays_[i]->size())
            place_misshapen(i, *step);
    }

    /// The last array is the result, where MINE has no other one for that.
    std::optional<Meaning> as_result(std::size_t i)
    {
        if (result_ == nullptr || i + 1 != names_.size() || !(in_order_ || names_.size() == 1))
            return std::nullopt;
        const StepSet& result = *result_;
        return fits(i, result) && !is_taken(result) ? placed_at(result, i) : std::nullopt;
    }

    /// A program has all maps as (d_in, d_out), or all as (d_out, d_in). The numbers of a square one fit both ways.
    void turn_maps()
    {
        for (std::size_t i = 0; i < names_.size(); ++i) {
            const Meaning& at = placed(i);
            if (!is_map_gradient(at) || !is_square(*at.target))
                continue;
            const std::optional<bool> others = are_maps_turned_but(i);
            if (others && *others != is_turned(at.fit))
                turn(i);
        }
    }

    static bool is_map_gradient(const Meaning& placed)
    {
        return placed.target != nullptr && is_map(*placed.target) &&
               placed.target->text.starts_with(formula::gradient_scope);
    }

    bool is_near(std::size_t i) const { return placed(i).fit.distance <= near_enough(*arrays_[i]); }

    /// Whether MINE has maps as (d_out, d_in), as far as others tell than one gradient: the map itself, or right
    /// gradients that are all stored in the same way. To contradict right numbers, these have to be two.
    std::optional<bool> are_maps_turned_but(std::size_t i) const
    {
        const std::string of = placed(i).target->text.substr(formula::gradient_scope.size());
        std::size_t turned = 0, all = 0;
        for (std::size_t k = 0; k < names_.size(); ++k)
            if (is_placed(k) && placed(k).target->text == of && is_near(k))
                return is_turned(placed(k).fit);
        for (std::size_t k = 0; k < names_.size(); ++k)
            if (k != i && is_map_gradient(placed(k)) && is_near(k)) {
                all += placed(k).target->steps.size();
                turned += is_turned(placed(k).fit) ? placed(k).target->steps.size() : 0;
            }
        const bool is_told = all > (is_near(i) ? 1 : 0) && (turned == 0 || turned == all);
        return is_told ? std::optional(turned == all) : std::nullopt;
    }

    /// The step that a wrong array fits best. Nothing follows from the gradient of a weight, so that all others are right
    /// tells nothing of it: it is looked for even where no other array is to be guessed.
    std::optional<Meaning> best_guess(std::size_t i)
    {
        if (!says_gradient(i) && has_gradients_ && !has_any(false))
            return has_any(true) ? only_gradient_left(i) : std::nullopt;
        if (!says_gradient(i) && !hypothesis_.guesses)
            return std::nullopt;
        std::vector<std::pair<double, Meaning>> candidates;
        const std::set<std::size_t> never = innocent();
        const auto is_innocent = [&](std::size_t step) { return never.contains(step); };
        for (const StepSet& target : targets_)
            if (can_be_meant(i, target) && !std::ranges::all_of(target.steps, is_innocent))
                if (const auto placed = placed_at(target, i))
                    candidates.emplace_back(likelihood(i, *placed), *placed);
        const auto by_score = [](const auto& left, const auto& right) { return left.first > right.first; };
        std::ranges::stable_sort(candidates, by_score);
        candidates.resize(std::min(candidates.size(), most_candidates));
        constexpr double of_follower = 4;
        for (auto& [score, placed] : candidates)
            score += of_follower * static_cast<double>(followers_of(i, placed));
        std::ranges::stable_sort(candidates, by_score);
        return candidates.empty() ? std::nullopt : std::optional(candidates.front().second);
    }

    /// True for a free target that a wrong array can have been meant to be, by all that its name and its place say.
    bool can_be_meant(std::size_t i, const StepSet& target) const
    {
        return fits(i, target) && !is_taken(target) && !is_of_other_layer(names_[i], target.text) &&
               !is_outside_layers(i, target) && can_be_masked(i, target) &&
               (says_gradient(i) ? can_be_this_gradient(i, target) : can_be_this_step(i, target));
    }

    bool can_be_this_gradient(std::size_t i, const StepSet& target) const
    {
        return words_in_common(meanings_[i], target.text) > 0 &&
               (hypothesis_.guesses || is_gradient_of_input(target) || begins_with(i, target));
    }

    bool can_be_this_step(std::size_t i, const StepSet& target) const
    {
        return !steps_[target.first()].formula.empty() && (!is_ordered() || is_between_neighbours(i, target));
    }

    /// The gradient of an input or a weight that an array can be which is not called one: the only one of its size
    /// that MINE does not have, where all else that MINE has are gradients. A weight that has been trained on is none.
    std::optional<Meaning> only_gradient_left(std::size_t i)
    {
        constexpr double trained_on = 0.5; // of the weight before
        std::optional<Meaning> only;
        for (const StepSet& target : targets_) {
            if (!fits(i, target) || !is_gradient_of_input(target) || is_taken(target))
                continue;
            const std::size_t of =
                *step_names_.find(steps_[target.first()].path.substr(formula::gradient_scope.size()));
            const auto weight = best_fit(*arrays_[i], target, steps_[of].value);
            const bool is_other = only && only->target->first() != target.first();
            if (is_other || (weight && weight->distance < trained_on))
                return std::nullopt;
            if (!only)
                only = placed_at(target, i);
        }
        return only;
    }

    /// True for the gradient of a weight or an input.
    bool is_gradient_of_input(const StepSet& target) const
    {
        const std::string& path = steps_[target.first()].path;
        const auto of = path.starts_with(formula::gradient_scope)
                            ? step_names_.find(path.substr(formula::gradient_scope.size()))
                            : std::nullopt;
        return of && steps_[*of].formula.empty();
    }

    /// True for the first gradient of MINE, and a target that all gradients begin from.
    bool begins_with(std::size_t i, const StepSet& target) const
    {
        const auto first = std::ranges::find_if(
            meanings_, [](const std::string& meaning) { return meaning.starts_with(formula::gradient_scope); });
        return in_order_ && first - meanings_.begin() == static_cast<std::ptrdiff_t>(i) &&
               steps_[target.first()].formula.empty() && target.text.starts_with(formula::gradient_scope);
    }

    /// True where MINE has gradients, or steps that are none.
    bool has_any(bool of_gradients) const
    {
        for (std::size_t step = 0; step < steps_.size(); ++step)
            if (own(step) != nullptr && steps_[step].path.starts_with(formula::gradient_scope) == of_gradients)
                return true;
        return false;
    }

    /// True for a step outside the layers, where the array's name says which layer it is of.
    bool is_outside_layers(std::size_t i, const StepSet& target) const
    {
        return has_layers_ && !is_in_layer(target.text) && says_layer(names_[i]);
    }

    /// True where MINE has all that was found so far in the order of the steps.
    bool is_ordered() const
    {
        std::size_t last = 0;
        for (std::size_t i = 0; i < names_.size(); ++i) {
            if (!is_placed(i))
                continue;
            if (placed(i).target->first() < last)
                return false;
            last = placed(i).target->first();
        }
        return in_order_;
    }

    /// How well an array stands for a target by its name, its place, and how near it is.
    double likelihood(std::size_t i, const Meaning& placed) const
    {
        constexpr double of_word = 2, of_place = 1, of_shape = 0.5;
        const StepSet& target = *placed.target;
        double score = 1 / (1 + placed.fit.distance);
        score += of_word * static_cast<double>(words_in_common(meanings_[i], target.text));
        if (target.shape == arrays_[i]->shape)
            score += of_shape;
        if (in_order_ && is_between_neighbours(i, target))
            score += of_place;
        return score;
    }

    /// True where a target comes after the arrays that MINE has before this one, and before those after it.
    bool is_between_neighbours(std::size_t i, const StepSet& target) const
    {
        for (std::size_t k = 0; k < names_.size(); ++k)
            if (is_placed(k) && k != i && (placed(k).target->first() < target.first()) != (k < i))
                return false;
        return true;
    }

    /// How many of the arrays after it would be right for what MINE has before them.
    std::size_t followers_of(std::size_t i, const Meaning& placed)
    {
        place(i, placed, "");
        std::size_t asked = 0, follow = 0;
        for (std::size_t k = 0; k < names_.size() && asked < most_followers; ++k)
            if (k != i && is_tensor(k) && !is_placed(k)) {
                ++asked;
                follow += nearest_following(k) ? 1 : 0;
            }
        unplace(i);
        return follow;
    }

    const bool has_layers_ = std::ranges::any_of(steps_, is_in_layer, &Step::path);
};

} // namespace

Matches match_by_numbers(const Recording& reference, const ArrayViews& mine, const std::vector<Claim>& known,
                         const std::vector<std::string>& names, const MyGraph& graph, const Hypothesis& hypothesis)
{
    constexpr double part = 0.9; // the rest is for judging, if walking has not ended at its half
    const BudgetShare share(part);
    if (graph.knows_reads())
        return match_by_walking(reference, mine, known, names, graph, hypothesis);
    Matcher matcher(reference, mine, graph, names, hypothesis);
    try {
        matcher.know(known);
        return {matcher.matches()};
    } catch (const BudgetError&) {
        return {.matches = matcher.take_matches(), .is_cut = true};
    }
}

} // namespace attn::diff
