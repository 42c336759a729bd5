// Which step an array is where MINE says what it was computed from.

#include "walk.hpp"

#include "explained.hpp"

#include "attn/core/budget.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace attn::diff {
namespace {

// How many of the arrays that were computed from it are asked whether they follow.
constexpr std::size_t most_readers = 6;
// Over how many steps that MINE does not have.
constexpr std::size_t most_between = 40;
// So many meanings of each of two arrays are tried together.
constexpr std::size_t most_together = 3;

/// The arrays that are steps, and the first one that is wrong.
class Walk : public Explained {
public:
    using Explained::Explained;

    Matches matches()
    {
        for (const bool is_exact : {true, false})
            for (std::size_t i = 0; i < names_.size(); ++i)
                if (can_be_explained(i))
                    explain(i, nearest_right(i), is_exact);
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
        return {take_matches(), fault_, explained(), right()};
    }

    /// What is known where the budget did not suffice for more.
    Matches matches_so_far()
    {
        std::set<std::string, std::less<>> known;
        for (const std::string& name : graph_.order())
            if (is_a_step(name) && !is_wrong_claim(name))
                known.insert(name);
        return {.matches = take_matches(), .fault = fault_, .explained = std::move(known), .is_cut = true};
    }

private:
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
        explain(i, nearest_right(i), is_exact);
        if (!is_placed(i))
            explain(i, nearest_following(i), is_exact);
        if (!is_placed(i))
            explain(i, nearest_mistaken(i), is_exact);
    }

    /// What has the numbers of a step exactly comes first: the mean of the squares is near the variance, and another array is it.
    void explain(std::size_t i, const std::optional<Meaning>& found, bool is_exact)
    {
        if (!found)
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
        return is_tensor(i) && !is_zero(i) && !is_placed(i) && !given_up_.contains(i);
    }

    bool is_exhausted() const { return current_budget()->left() < least_left_; }

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
        if (fault_.empty() && (is_known || is_computed || AllowedKeys::is_mask(*arrays_[i]))) {
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
        std::size_t words; ///< of the array's name

        std::tuple<std::size_t, double> rank() const { return {by_reads.all(), -static_cast<double>(words)}; }
    };

    /// The nearest by what the array was computed from first.
    std::vector<Candidate> candidates_for(std::size_t i)
    {
        std::vector<Candidate> candidates;
        if (!is_tensor(i) || is_zero(i))
            return candidates;
        const std::set<std::size_t> never = innocent();
        const auto is_innocent = [&](std::size_t step) { return never.contains(step); };
        for (const StepSet& target : targets_)
            if (fits(i, target) && can_be_masked(i, target) && (!is_taken(target) || are_read(target, i)) &&
                can_be_computed(target, i) && !std::ranges::all_of(target.steps, is_innocent))
                candidates.push_back(
                    {&target, distance_by_reads(i, target), words_in_common(meanings_[i], target.text)});
        std::ranges::stable_sort(candidates, {}, &Candidate::rank);
        return candidates;
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
            if (is_exhausted() || (best && *best < candidate.rank()))
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
        return std::ranges::all_of(target.steps, [&](std::size_t step) { return read.contains(step); });
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
        for (std::size_t k = i + 1; k < names_.size() && readers.size() < most_readers; ++k) {
            if (!is_tensor(k) || is_placed(k) || given_up_.contains(k) || arrays_[k]->values == arrays_[i]->values)
                continue;
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

Matches match_by_walking(const Recording& reference, const ArrayViews& mine, const std::vector<Claim>& known,
                         const std::vector<std::string>& names, const MyGraph& graph, const Hypothesis& hypothesis)
{
    Walk walk(reference, mine, graph, names, hypothesis);
    try {
        walk.know(known);
        return walk.matches();
    } catch (const BudgetError&) {
        return walk.matches_so_far();
    }
}

} // namespace attn::diff
