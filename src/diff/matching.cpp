// Which step an array is: by its numbers, by what it was computed from, and by what was computed from it.

#include "matching.hpp"

#include "explained.hpp"

#include "attn/core/budget.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace attn::diff {
namespace {

// How many of the arrays that were computed from it are asked whether they follow.
constexpr std::size_t most_readers = 6;
// Over how many steps that MINE does not have.
constexpr std::size_t most_between = 40;
// So many of the steps that an array can be, the likeliest ones, are tried where nothing says what it was computed from.
constexpr std::size_t most_candidates = 12;
// So many meanings of each of two arrays are tried together.
constexpr std::size_t most_together = 3;

bool is_in_layer(std::string_view path) { return path.find("layers.") != std::string_view::npos; }

/// The arrays that are steps, and the first one that is wrong. An array that does not say what it was computed from can have been
/// computed from any other one; then its name and its place tell, too.
class Matching : public Explained {
public:
    using Explained::Explained;

    Matches matches()
    {
        place_used();
        place_right();
        if (has_gradients_ && !graph_.knows_reads()) {
            look_for_contributions();
            place_right();
        }
        if (!graph_.knows_reads()) {
            for (const bool is_twin : {false, true})
                for (std::size_t i = 0; i < names_.size(); ++i)
                    if (is_tensor(i) && !is_placed(i) && has_later_twin(i) == is_twin)
                        place_other(i);
            turn_maps();
            return {{}, take_matches()};
        }
        take_repeat_for_result();
        my_result_ = result_of_mine();
        reserved_ = my_result_ && !is_wrong_claim(*my_result_) ? evidence_.array(*my_result_) : nullptr;
        (void)first_unexplained(); // before anything follows from what is wrong
        explain();
        while (const auto wrong = is_exhausted() ? std::nullopt : first_unexplained()) {
            mean(*wrong);
            explain();
        }
        if (!has_meaning_ && likely_)
            place(likely_->first, likely_->second, "by its place");
        place_result();
        std::vector<Match> matches = take_matches();
        return {{fault_, explained(), right()}, std::move(matches)};
    }

    /// What is known where the budget did not suffice for more.
    Matches matches_so_far()
    {
        std::set<std::string, std::less<>> known;
        for (const std::string& name : graph_.order())
            if (is_a_step(name) && !is_wrong_claim(name))
                known.insert(name);
        return {{.fault = fault_, .explained = std::move(known), .is_cut = true}, take_matches()};
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
        for (const bool is_exact : {true, false})
            for (std::size_t i = 0; i < names_.size(); ++i)
                if (can_be_explained(i))
                    explain(i, nearest_right(i), is_exact);
    }

    /// Takes every array for the step whose numbers it has.
    void explain()
    {
        for (const bool is_exact : {true, false})
            for (std::size_t i = 0; i < names_.size(); ++i)
                if (can_be_explained(i))
                    explain(i, is_exact);
    }

    void explain(std::size_t i, bool is_exact)
    {
        if (graph_.knows_reads())
            explain(i, nearest_right(i), is_exact);
        if (!is_placed(i))
            explain(i, nearest_following(i), is_exact);
        if (!is_placed(i))
            explain(i, nearest_mistaken(i), is_exact);
    }

    /// What has the numbers of a step exactly comes first: the mean of the squares is near the variance, and another array is it. The
    /// same once more can be another step, if nothing says what it was computed from.
    void explain(std::size_t i, const std::optional<Meaning>& found, bool is_exact)
    {
        if (!found || (!graph_.knows_reads() && is_taken(*found->target)))
            return;
        const std::vector<std::size_t>& steps = found->target->steps;
        if (found->fit.distance <= right_enough(*arrays_[i]))
            exact_.insert(steps.begin(), steps.end());
        else if (is_exact || std::ranges::all_of(steps, [this](std::size_t step) { return exact_.contains(step); }) ||
                 !is_explained_before(names_[i]))
            return;
        place(i, found, found_by_numbers);
    }

    /// True where all that an array was computed from is explained: behind what is not, near numbers are near by a small mistake.
    bool is_explained_before(const std::string& name)
    {
        const auto before =
            graph_.all_before(name, [&](const std::string& read) { return read != name && is_explained(read); });
        return std::ranges::all_of(before, [&](const std::string& read) { return read == name || is_explained(read); });
    }

    bool can_be_explained(std::size_t i) const
    {
        return is_tensor(i) && !is_zero(i) && !is_the_result(i) && !is_placed(i) && !given_up_.contains(i);
    }

    bool is_exhausted() const { return current_budget()->left() < least_left_; }

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
        if (can_be_explained(i))
            explain(i, false);
        if (is_placed(i))
            return;
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
        const std::optional<Meaning> guess = best_guess(i);
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
        const std::vector<Choice> meanings = meanings_of(i);
        return meanings.empty() ? std::nullopt : std::optional(meanings.front().placed);
    }

    /// True for a target that a wrong array can have been meant to be, by all that its name and its place say where nothing else does.
    bool can_be_meant(std::size_t i, const StepSet& target) const
    {
        if (graph_.knows_reads())
            return can_be_computed(target, i);
        return !is_of_other_layer(names_[i], target.text) && !is_outside_layers(i, target) &&
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
            const std::size_t of = *input_of_gradient(steps_[target.first()].path, steps_, step_names_);
            const auto weight = best_fit(*arrays_[i], target, steps_[of].value);
            const bool is_other = only && only->target->first() != target.first();
            if (is_other || (weight && weight->distance < trained_on))
                return std::nullopt;
            if (!only)
                only = placed_at(target, i);
        }
        return only;
    }

    bool is_gradient_of_input(const StepSet& target) const
    {
        return input_of_gradient(steps_[target.first()].path, steps_, step_names_).has_value();
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

    /// True where a target comes after the arrays that MINE has before this one, and before those after it.
    bool is_between_neighbours(std::size_t i, const StepSet& target) const
    {
        for (std::size_t k = 0; k < names_.size(); ++k)
            if (is_placed(k) && k != i && (placed(k).target->first() < target.first()) != (k < i))
                return false;
        return true;
    }

    /// Where MINE has no array for the result and its last one of that size repeats an earlier one, that is meant for the result.
    void take_repeat_for_result()
    {
        if (result_ == nullptr || is_taken(*result_))
            return;
        std::size_t last = names_.size();
        for (std::size_t i = 0; i < names_.size(); ++i) {
            if (!is_tensor(i) || arrays_[i]->size() != result_->size)
                continue;
            if (!is_placed(i) && !is_explained(names_[i]))
                return; // what is wrong there can be the result
            last = i;
        }
        if (result_of_mine() || last == names_.size() || !is_placed(last))
            return;
        std::vector<std::string> same; // the same step again and again
        for (std::size_t i = 0; i <= last; ++i)
            if (is_placed(i) && placed(i).target == placed(last).target)
                same.push_back(names_[i]);
        if (same.size() < 2)
            return;
        const auto goes_on = std::ranges::find_if(graph_.order(), [&](const std::string& name) {
            return !is_a_step(name) && std::ranges::find(graph_.reads(name), names_[last]) != graph_.reads(name).end();
        });
        fault_ = goes_on == graph_.order().end() ? same[1] : *goes_on;
        unplace(last);
        place(last, placed_at(*result_, last), "by its place, the last");
    }

    /// Where MINE has an array for the result, it is judged, whatever is known of the arrays before it.
    void place_result()
    {
        if (!my_result_ || is_a_step(*my_result_) || is_taken(*result_))
            return;
        const auto i = static_cast<std::size_t>(std::ranges::find(names_, *my_result_) - names_.begin());
        const bool is_last = std::ranges::none_of(graph_.order(), [&](const std::string& name) {
            const auto& reads = graph_.reads(name);
            const Array* found = evidence_.array(name);
            return std::ranges::find(reads, *my_result_) != reads.end() && found != nullptr &&
                   found->values != arrays_[i]->values;
        });
        if (is_last)
            place(i, placed_at(*result_, i), "by its place, the last");
    }

    /// The arrays from which the result, or what is wrong by its name, can be reached past what is explained.
    std::set<std::string, std::less<>> unexplained()
    {
        std::set<std::string, std::less<>> on_the_way;
        for (const std::string& name : graph_.order())
            if (is_wrong_claim(name) || (name == my_result_ && !is_a_step(name)))
                on_the_way.merge(graph_.all_before(name, [this](const std::string& one) { return is_explained(one); }));
        return on_the_way;
    }

    std::optional<std::size_t> first_unexplained()
    {
        const auto on_the_way = unexplained();
        for (const std::string& name : graph_.order()) {
            if (!on_the_way.contains(name) || is_explained(name))
                continue;
            const auto i = static_cast<std::size_t>(std::ranges::find(names_, name) - names_.begin());
            if (i < names_.size() && !is_placed(i) && !given_up_.contains(i)) // neither name nor numbers say what it is
                return i;
        }
        return std::nullopt;
    }

    /// MINE's array for the result; nothing where it has none.
    std::optional<std::string> result_of_mine() const
    {
        if (result_ == nullptr)
            return std::nullopt;
        if (is_taken(*result_)) {
            const auto claim = std::ranges::find_if(graph_.order(), [this](const std::string& name) {
                return is_wrong_claim(name) && steps_of(name).front() == result_->first();
            });
            return claim == graph_.order().end() ? std::nullopt : std::optional(*claim);
        }
        for (std::size_t i = names_.size(); i-- > 0;)
            if (arrays_[i]->size() == result_->size && is_tensor(i) && !graph_.reads(names_[i]).empty())
                return is_placed(i) ? std::nullopt : std::optional(names_[i]);
        return std::nullopt;
    }

    /// Takes a wrong array for the step that it was meant to be, if there is one.
    void mean(std::size_t i)
    {
        std::vector<Choice> meanings = meanings_of(i);
        const bool is_known = !meanings.empty() && meanings.front().followers > 0;
        const bool is_computed = !steps_before(i).empty();
        if (fault_.empty() && !has_meaning_ && (is_known || is_computed || AllowedKeys::is_mask(*arrays_[i]))) {
            const bool is_foreign = is_known && meanings.front().candidate.by_reads.foreign > 0;
            fault_ = (is_foreign ? foreign_read(i, *meanings.front().placed.target) : wrong_mask(i)).value_or("");
        }
        if (is_known)
            return take(i, meanings.front().placed);
        given_up_.insert(i);
        if (!is_computed || meanings.empty())
            return;
        if (!likely_ && meanings.front().candidate.by_reads.all() == 0)
            likely_.emplace(i, meanings.front().placed);
        meanings.resize(std::min(meanings.size(), most_together));
        if (!mean_together(i, meanings))
            open_.emplace(i, std::move(meanings));
    }

    /// A step that a wrong array can have been meant to be.
    struct Candidate {
        const StepSet* target;
        ReadDistance by_reads;
        double likeness; ///< by its name and its place

        std::tuple<std::size_t, double> rank() const { return {by_reads.all(), -likeness}; }
    };

    /// The nearest by what the array was computed from first.
    std::vector<Candidate> candidates_for(std::size_t i)
    {
        std::vector<Candidate> candidates;
        if (graph_.knows_reads() && (!is_tensor(i) || is_zero(i)))
            return candidates;
        const std::set<std::size_t> never = innocent();
        const auto is_innocent = [&](std::size_t step) { return never.contains(step); };
        for (const StepSet& target : targets_)
            if (fits(i, target) && can_be_masked(i, target) && (!is_taken(target) || are_read(target, i)) &&
                can_be_meant(i, target) && !std::ranges::all_of(target.steps, is_innocent))
                candidates.push_back({&target, distance_by_reads(i, target), likeness(i, target)});
        std::ranges::stable_sort(candidates, {}, &Candidate::rank);
        return candidates;
    }

    /// By the words of the array's name; where it does not say what it was computed from, by its place and its shape, too.
    double likeness(std::size_t i, const StepSet& target) const
    {
        constexpr double of_place = 0.5, of_shape = 0.25; // of a word
        const auto words = static_cast<double>(words_in_common(meanings_[i], target.text));
        if (graph_.knows_reads())
            return words;
        return words + (in_order_ && is_between_neighbours(i, target) ? of_place : 0) +
               (target.shape == arrays_[i]->shape ? of_shape : 0);
    }

    /// True for what a formula gives, and for an input that MINE computes, as from ids; weights are not computed.
    bool can_be_computed(const StepSet& target, std::size_t i) const
    {
        const Step& step = steps_[target.first()];
        return !step.formula.empty() || are_read(target, i) ||
               (!is_map(target) && step.axes.size() > 1 && !graph_.reads(names_[i]).empty());
    }

    struct Choice {
        Candidate candidate;
        Meaning placed;
        std::size_t followers; ///< how many of the next arrays would follow from it
    };

    /// The best first.
    std::vector<Choice> meanings_of(std::size_t i)
    {
        std::vector<Choice> meanings;
        const std::vector<std::size_t> readers = first_readers(i);
        std::optional<std::tuple<std::size_t, double>> best; // of one that all readers follow from
        for (const Candidate& candidate : candidates_for(i)) {
            const bool is_enough = graph_.knows_reads() ? is_exhausted() : meanings.size() == most_candidates;
            if (is_enough || (best && *best < candidate.rank()))
                break;
            const auto placed = placed_at(*candidate.target, i);
            if (!placed)
                continue;
            const Choice meaning{candidate, *placed, followers_of(i, *placed, readers)};
            if (meaning.followers == readers.size() && !readers.empty() && !best)
                best = candidate.rank();
            if (meaning.followers > 0 || !is_taken(*candidate.target))
                meanings.push_back(meaning);
        }
        std::ranges::stable_sort(meanings, {}, [](const Choice& meaning) {
            return std::tuple(-static_cast<double>(meaning.followers), meaning.candidate.rank(),
                              meaning.placed.fit.distance);
        });
        return meanings;
    }

    /// True for steps that an array was computed from, which it can be once more, changed, as after dropout.
    bool are_read(const StepSet& target, std::size_t i) const
    {
        const std::set<std::size_t> read = steps_before(i);
        return std::ranges::all_of(target.steps, [&](std::size_t step) {
            const auto is_it = [&](std::size_t other) { // keys that several heads share are a step of each
                return other == step || steps_[other].value.values == steps_[step].value.values;
            };
            return std::ranges::any_of(read, is_it);
        });
    }

    void take(std::size_t i, const Meaning& placed)
    {
        place(i, placed, "by what follows from it", true);
        has_meaning_ = true;
    }

    /// Tries an array together with an earlier one that nothing followed from alone, as where queries and keys are both wrong.
    bool mean_together(std::size_t i, const std::vector<Choice>& meanings)
    {
        const bool had_meaning = has_meaning_;
        for (const auto& [other, others] : open_) {
            const auto reader = common_reader(i, other);
            if (!reader)
                continue;
            for (const Choice& theirs : others) {
                take(other, theirs.placed);
                for (const Choice& mine : meanings) {
                    if (mine.placed.target == theirs.placed.target)
                        continue;
                    take(i, mine.placed);
                    if (follows(*reader, {theirs.placed.target->first(), mine.placed.target->first()})) {
                        given_up_.erase(other);
                        given_up_.erase(i);
                        open_.erase(other);
                        return true;
                    }
                    unplace(i);
                }
                unplace(other);
            }
        }
        has_meaning_ = had_meaning;
        return false;
    }

    /// The first array that is computed from both.
    std::optional<std::size_t> common_reader(std::size_t one, std::size_t other) const
    {
        for (std::size_t k = 0; k < names_.size(); ++k) {
            if (!is_tensor(k) || is_placed(k) || given_up_.contains(k))
                continue;
            const Names sources = before(names_[k]);
            if (sources.contains(names_[one]) && sources.contains(names_[other]))
                return k;
        }
        return std::nullopt;
    }

    /// The mask that a wrong array was computed from, where it is the only one and none of the reference's.
    std::optional<std::string> wrong_mask(std::size_t i)
    {
        const Names sources = before(names_[i]);
        std::vector<std::string> masks;
        std::ranges::copy_if(graph_.order(), std::back_inserter(masks), [&](const std::string& name) {
            return sources.contains(name) && evidence_.is_mask(name);
        });
        const AllowedKeys& allowed = evidence_.allowed();
        const auto is_wrong = [&](const std::string& name) { return !allowed.say(*evidence_.array(name)); };
        if (masks.empty() || !std::ranges::all_of(masks, is_wrong))
            return std::nullopt;
        // What is right by itself is wrong where it goes on alone.
        return allowed.has_step(*evidence_.array(masks.front())) && masks.size() > 1 ? masks[1] : masks.front();
    }

    /// The first of the arrays that one was computed from that stands for steps which a target is not computed from, and that nothing
    /// right is computed from, either: it has another array's numbers.
    std::optional<std::string> foreign_read(std::size_t i, const StepSet& target)
    {
        if (!has_missing_source(i, target))
            return std::nullopt; // a call is given more than it uses
        const auto has_source_in = [&](const StepSet& of, const std::string& name) {
            const std::set<std::size_t>& sources = known_before(of);
            return std::ranges::any_of(steps_of(name), [&](std::size_t step) { return sources.contains(step); });
        };
        const Names sources = before(names_[i]);
        for (const std::string& name : graph_.order()) {
            const auto reads_it = [&](const std::string& reader) {
                return std::ranges::find(graph_.reads(reader), name) != graph_.reads(reader).end();
            };
            if (!is_a_step(name) || has_source_in(target, name) || std::ranges::none_of(sources, reads_it))
                continue;
            bool is_used = false;
            for (std::size_t k = 0; k < names_.size(); ++k)
                is_used = is_used || (is_placed(k) && reads_it(names_[k]) && !are_read(*placed(k).target, k) &&
                                      has_source_in(*placed(k).target, name));
            if (!is_used)
                return name;
        }
        return std::nullopt;
    }

    /// True where an array has the numbers of a step that follows from some others as MINE has them.
    bool follows(std::size_t i, const std::vector<std::size_t>& from)
    {
        const double near = near_enough(*arrays_[i]);
        return std::ranges::any_of(targets_, [&](const StepSet& target) {
            const std::set<std::size_t>& sources = known_before(target);
            const auto is_source = [&](std::size_t step) { return sources.contains(step) && step != target.first(); };
            if (!fits(i, target) || is_taken(target) || !std::ranges::all_of(from, is_source) ||
                unknown_before(target) > most_between)
                return false;
            const auto placed = placed_at(target, i);
            return placed && placed->fit.distance <= near;
        });
    }

    /// The next arrays that were computed from one, past what is no step.
    std::vector<std::size_t> first_readers(std::size_t i) const
    {
        std::vector<std::size_t> readers;
        for (std::size_t k = graph_.knows_reads() ? i + 1 : 0; k < names_.size() && readers.size() < most_readers;
             ++k) {
            if (!is_tensor(k) || is_placed(k) || given_up_.contains(k) || evidence_.is_taken_from(names_[k], names_[i]))
                continue; // its numbers, in whatever order, say nothing of it
            if (!graph_.knows_reads() && k != i)
                readers.push_back(k);
            const auto before = graph_.all_before(
                names_[k], [&](const std::string& name) { return name != names_[i] && is_a_step(name); });
            if (before.contains(names_[i]))
                readers.push_back(k);
        }
        return readers;
    }

    /// How many of some readers would follow from an array if it were that step.
    std::size_t followers_of(std::size_t i, const Meaning& placed, const std::vector<std::size_t>& readers)
    {
        place(i, placed, "", true);
        const auto follow = std::ranges::count_if(
            readers, [&](std::size_t reader) { return follows(reader, {placed.target->first()}); });
        unplace(i);
        return static_cast<std::size_t>(follow);
    }

    const bool has_layers_ = std::ranges::any_of(steps_, is_in_layer, &Step::path);
    std::set<std::size_t> exact_;                            ///< steps whose numbers an array has
    const double least_left_ = current_budget()->left() / 2; ///< of the budget, so that all can be judged
    std::set<std::size_t> given_up_;                         ///< arrays that no step was found for
    std::map<std::size_t, std::vector<Choice>> open_;        ///< those that can be known with another one
    std::string fault_;
    std::optional<std::string> my_result_;
    bool has_meaning_ = false;                              ///< some wrong array is a step, since others follow from it
    std::optional<std::pair<std::size_t, Meaning>> likely_; ///< the first wrong array, and what it is most like, else
};

} // namespace

Matches match_by_numbers(const Recording& reference, const ArrayViews& mine, const std::vector<Claim>& known,
                         const std::vector<std::string>& names, const MyGraph& graph, const Hypothesis& hypothesis)
{
    constexpr double part = 0.9; // the rest is for judging, if looking for meanings has not ended at its half
    const BudgetShare share(part);
    Matching matching(reference, mine, graph, names, hypothesis);
    try {
        matching.know(known);
        return matching.matches();
    } catch (const BudgetError&) {
        return matching.matches_so_far();
    }
}

} // namespace attn::diff
