// Which step an array is where MINE says what it was computed from.

#include "walk.hpp"

#include "masks.hpp"
#include "placement.hpp"
#include "rows.hpp"
#include "softmax.hpp"

#include "attn/core/budget.hpp"
#include "attn/formula/evaluate.hpp"
#include "attn/formula/expression.hpp"
#include "attn/mistakes/head_scope.hpp"

#include <algorithm>
#include <cmath>
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

/// True for the numbers of another array in the same order, its axes as they are or split.
bool is_split(const Array& array, const Array& whole)
{
    std::size_t at = 0;
    for (std::size_t size : whole.shape)
        for (std::size_t left = size; left > 1;) {
            while (at < array.rank() && array.shape[at] == 1)
                ++at;
            if (at == array.rank() || left % array.shape[at] != 0)
                return false;
            left /= array.shape[at++];
        }
    return array.values == whole.values;
}

/// True for numbers of another array, and no others.
bool has_numbers_of(const Array& array, const Array& whole)
{
    // Mostly the first number is not among them, and nothing is sorted.
    spend(static_cast<double>(whole.size()));
    if (array.size() > 0 && std::ranges::find(whole.values, array.values.front()) == whole.values.end())
        return false;
    constexpr double operations = 20;
    spend(operations * static_cast<double>(array.size() + whole.size()));
    std::vector<double> numbers = whole.values;
    std::erase_if(numbers, [](double number) { return std::isnan(number); });
    std::ranges::sort(numbers);
    return std::ranges::all_of(array.values, [&](double number) {
        return !std::isnan(number) && std::ranges::binary_search(numbers, number);
    });
}

// How many of the arrays that were computed from it are asked whether they follow.
constexpr std::size_t most_readers = 6;
// Over how many steps that MINE does not have.
constexpr std::size_t most_between = 40;
// So many meanings of each of two arrays are tried together.
constexpr std::size_t most_together = 3;

/// The arrays that are steps, and the first one that is wrong.
class Walk : public Placement {
public:
    Walk(const Recording& reference, const ArrayViews& mine, const MyGraph& graph,
         const std::vector<std::string>& names, const Hypothesis& hypothesis)
        : Placement(reference, mine, graph, names, hypothesis), mine_(mine), allowed_(reference.steps)
    {
    }

    Matches matches()
    {
        for (const bool is_exact : {true, false})
            for (std::size_t i = 0; i < names_.size(); ++i)
                if (can_be_explained(i))
                    explain(i, nearest_right(i), is_exact);
        take_repeat_for_result();
        my_result_ = result_of_mine();
        reserved_ = my_result_ && !is_wrong_claim(*my_result_) ? mine_.find(*my_result_)->second : nullptr;
        (void)first_unexplained(); // before anything follows from what is wrong
        explain();
        while (const auto wrong = is_exhausted() ? std::nullopt : first_unexplained()) {
            mean(*wrong);
            explain();
        }
        if (!has_meaning_ && likely_)
            place(likely_->first, likely_->second, "by its place");
        place_result();
        std::set<std::string, std::less<>> explained, right;
        for (const std::string& name : graph_.order()) {
            if (is_explained(name) && !is_doubtful_mask(name) && !is_doubtful_part(name))
                explained.insert(name);
            if (is_right(name))
                right.insert(name);
        }
        for (const std::string& name : graph_.order())
            if (const auto others = beside_repeated(name); !others.empty() && !is_innocent(name)) {
                explained.erase(name);
                for (const std::string& other : others)
                    if (!is_innocent(other))
                        explained.erase(other);
            }
        for (std::size_t i = 0; i < names_.size(); ++i)
            if (is_placed(i) && !is_right(names_[i]) && has_other_sources(i))
                for (const std::string& read : steps_read_by(i))
                    if (!is_innocent(read))
                        explained.erase(read);
        return {take_matches(), fault_, std::move(explained), std::move(right)};
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
        for (const auto& found : {nearest_right(i), nearest_following(i), nearest_mistaken(i)})
            if (!is_placed(i))
                explain(i, found, is_exact);
    }

    /// What has the numbers of a step exactly comes first: the mean of the squares is near the variance, and another array is it.
    void explain(std::size_t i, const std::optional<Placed>& found, bool is_exact)
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
        for (std::size_t i = 0; i < names_.size(); ++i)
            if (is_tensor(i) && arrays_[i]->size() == result_->size)
                last = i;
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
            const auto found = mine_.find(name);
            return std::ranges::find(reads, *my_result_) != reads.end() && found != mine_.end() &&
                   found->second->values != arrays_[i]->values;
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

    /// True for a step, for its inner results, for what only takes a part of these or splits their axes, and for all that something
    /// right was computed from.
    bool is_explained(const std::string& name)
    {
        if (is_a_step(name) || !mine_.contains(name))
            return !is_wrong_claim(name);
        if (std::exchange(explained_at_, changes()) != changes())
            is_explained_.clear();
        const auto known = is_explained_.find(name);
        if (known != is_explained_.end())
            return known->second;
        const bool answer = is_innocent(name) || is_explained_array(name);
        return is_explained_[name] = answer;
    }

    /// True where something right was computed from an array, at once or by others.
    bool is_innocent(const std::string& name)
    {
        if (!innocent_names_) {
            innocent_names_.emplace();
            for (auto one = graph_.order().rbegin(); one != graph_.order().rend(); ++one)
                if (innocent_names_->contains(*one) || (is_right(*one) && beside_repeated(*one).empty()))
                    innocent_names_->merge(needed_for(*one));
        }
        return innocent_names_->contains(name);
    }

    /// What an array was surely computed from, of all that its line reads: where one of these has all of its numbers, as in
    /// `k, v = k.view(shape), v.view(shape)`, that one.
    std::set<std::string, std::less<>> needed_for(const std::string& name) const
    {
        const std::vector<std::string>& reads = graph_.reads(name);
        std::set<std::string, std::less<>> all(reads.begin(), reads.end()), sources;
        const auto found = mine_.find(name);
        for (const std::string& read : all)
            if (const auto source = mine_.find(read); all.size() > 1 && found != mine_.end() && source != mine_.end() &&
                                                      has_numbers_of(*found->second, *source->second))
                sources.insert(read);
        return sources.empty() ? all : sources;
    }

    /// True for the numbers of a step, or what a formula gives on the way to one, whole or some of its rows.
    bool is_right(const std::string& name)
    {
        const auto known = is_right_.find(name);
        return known != is_right_.end() ? known->second : (is_right_[name] = is_whole(name) || has_rows(name));
    }

    /// True for an array whose numbers tell which step it is.
    bool tells(const std::string& name) const
    {
        const auto found = mine_.find(name);
        return found != mine_.end() && found->second->type == ElementType::real && found->second->size() > 1 &&
               !AllowedKeys::is_mask(*found->second) &&
               !std::ranges::all_of(found->second->values, [](double number) { return diff::is_whole(number); });
    }

    bool is_whole(const std::string& name)
    {
        if (!tells(name))
            return false;
        const Array& array = *mine_.find(name)->second;
        const auto is_it = [&](const Array& right) {
            return merges(right.shape, array.shape) && relative_distance(array, right) <= right_enough(array);
        };
        return std::ranges::any_of(steps_, is_it, &Step::value) || has_inner_result(is_it, false);
    }

    bool has_rows(const std::string& name)
    {
        if (!tells(name))
            return false;
        if (!rows_)
            rows_.emplace(steps_);
        const Array& array = *mine_.find(name)->second;
        return rows_->have(array, right_enough(array));
    }

    /// True for some rows of a step from which nothing right was computed: others can be missing.
    bool is_doubtful_part(const std::string& name)
    {
        return !is_a_step(name) && !is_innocent(name) && !is_whole(name) && has_rows(name);
    }

    /// The arrays before one that stand for steps, each way back to the nearest.
    std::set<std::string, std::less<>> steps_read_by(std::size_t i) const
    {
        std::set<std::string, std::less<>> steps;
        for (const std::string& name :
             graph_.all_before(names_[i], [this](const std::string& one) { return is_a_step(one); }))
            std::ranges::copy_if(graph_.reads(name), std::inserter(steps, steps.end()),
                                 [this](const std::string& read) { return is_a_step(read); });
        return steps;
    }

    /// True where an array was computed from other arrays than its step, so that its line can be right: from a step too early, past one
    /// that MINE has or a whole other module, from a foreign one, or without one. Masks are no steps, and can be what is missing.
    bool has_other_sources(std::size_t i)
    {
        const Target& target = *placed(i).target;
        const auto before = graph_.all_before(names_[i], [this](const std::string& name) { return is_a_step(name); });
        const auto is_mask = [this](const std::string& name) {
            const auto found = mine_.find(name);
            return found != mine_.end() && AllowedKeys::is_mask(*found->second);
        };
        const std::set<std::size_t> read = steps_before(i);
        const auto is_read = [&](std::size_t step) { return read.contains(step); };
        const std::string scope = module_of(target.first());
        const auto is_past = [&](std::size_t step) {
            return !steps_[step].formula.empty() && (own(step) != nullptr || !module_of(step).starts_with(scope));
        };
        return distance_by_reads(i, target).foreign > 0 ||
               std::ranges::any_of(known_before_until(target, is_read), is_past) ||
               (has_missing_source(i, target) && std::ranges::none_of(before, is_mask));
    }

    /// The scope of a step's module: "layers.0.self_attn." of a head's scores, too.
    std::string module_of(std::size_t step) const
    {
        const auto head = mistakes::head_scope(steps_[step].path);
        return head ? std::string(head->before) : steps_[step].path.substr(0, steps_[step].path.rfind('.') + 1);
    }

    /// What an array was computed from besides the step that it is once more: a mask that masks nothing. Something can be missing there.
    std::vector<std::string> beside_repeated(const std::string& name) const
    {
        std::vector<std::string> others;
        const auto is_same_step = [&](const std::string& read) {
            return is_a_step(read) && steps_of(read) == steps_of(name);
        };
        if (is_a_step(name) && std::ranges::any_of(graph_.reads(name), is_same_step))
            std::ranges::copy_if(graph_.reads(name), std::back_inserter(others),
                                 [this](const std::string& read) { return !is_a_step(read) && mine_.contains(read); });
        return others;
    }

    /// True for a mask that forbids nothing wrong, and does not say what any mask of the reference says: keys that it leaves out can be
    /// missing.
    bool is_doubtful_mask(const std::string& name)
    {
        const auto found = mine_.find(name);
        return found != mine_.end() && AllowedKeys::is_mask(*found->second) && !is_innocent(name) &&
               !allowed_.say(*found->second);
    }

    bool is_explained_array(const std::string& name)
    {
        const Array& array = *mine_.find(name)->second;
        if (const auto half = half_of(array); half && (has_numbers_of_a_step(*half) || is_inside_a_step(*half)))
            return true;
        if (hypothesis_.no_step.contains(name))
            return true; // it is one but for the last digits
        if (AllowedKeys::is_mask(array))
            return allowed_.permit(array);
        const auto is_count = [](double number) { return diff::is_whole(number) && !std::isnan(number); };
        return std::ranges::all_of(array.values, is_count) || is_right(name) || is_moved(name) ||
               is_inside_a_step(array) || is_longer(array);
    }

    bool has_numbers_of_a_step(const Array& array)
    {
        return std::ranges::any_of(
            steps_, [&](const Step& step) { return relative_distance(array, step.value) <= right_enough(array); });
    }

    /// True for what a formula computes on the way to its value.
    bool is_inside_a_step(const Array& array)
    {
        return has_inner_result(
            [&](const Array& inner) { return relative_distance(array, inner) <= right_enough(array); }, true);
    }

    /// True for a table of which the reference has the first rows alone.
    bool is_longer(const Array& array)
    {
        const auto are_its_first = [&](const Array& rows) {
            if (rows.rank() < 2 || rows.size() >= array.size() || row_length(rows) != row_length(array) ||
                rows.rank() != array.rank())
                return false;
            const auto end = array.values.begin() + static_cast<std::ptrdiff_t>(rows.size());
            return relative_distance({rows.shape, {array.values.begin(), end}, array.type}, rows) <=
                   right_enough(array);
        };
        return std::ranges::any_of(steps_, [&](const Step& step) { return are_its_first(step.value); }) ||
               has_inner_result(are_its_first, true);
    }

    /// True where an array is a part of one that is explained, or the same with an axis split.
    bool is_moved(const std::string& name)
    {
        const Array& array = *mine_.find(name)->second;
        return std::ranges::any_of(graph_.reads(name), [&](const std::string& read) {
            const auto found = mine_.find(read);
            return found != mine_.end() && is_explained(read) &&
                   (is_split(array, *found->second) ||
                    (array.size() < found->second->size() && has_numbers_of(array, *found->second)));
        });
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
        std::vector<Meaning> meanings = meanings_of(i);
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
        const Target* target;
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
        for (const Target& target : targets_)
            if (fits(i, target) && can_be_masked(i, target) && (!is_taken(target) || are_read(target, i)) &&
                can_be_computed(target, i) && !std::ranges::all_of(target.steps, is_innocent))
                candidates.push_back(
                    {&target, distance_by_reads(i, target), words_in_common(meanings_[i], target.text)});
        std::ranges::stable_sort(candidates, {}, &Candidate::rank);
        return candidates;
    }

    /// True for what a formula gives, and for an input that MINE computes, as from ids; weights are not computed.
    bool can_be_computed(const Target& target, std::size_t i) const
    {
        const Step& step = steps_[target.first()];
        return !step.formula.empty() || are_read(target, i) ||
               (!is_map(target) && step.axes.size() > 1 && !graph_.reads(names_[i]).empty());
    }

    struct Meaning {
        Candidate candidate;
        Placed placed;
        std::size_t followers; ///< how many of the next arrays would follow from it
    };

    /// The best first.
    std::vector<Meaning> meanings_of(std::size_t i)
    {
        std::vector<Meaning> meanings;
        const std::vector<std::size_t> readers = first_readers(i);
        std::optional<std::tuple<std::size_t, double>> best; // of one that all readers follow from
        for (const Candidate& candidate : candidates_for(i)) {
            if (is_exhausted() || (best && *best < candidate.rank()))
                break;
            const auto placed = placed_at(*candidate.target, i);
            if (!placed)
                continue;
            const Meaning meaning{candidate, *placed, followers_of(i, *placed, readers)};
            if (meaning.followers == readers.size() && !readers.empty() && !best)
                best = candidate.rank();
            if (meaning.followers > 0 || !is_taken(*candidate.target))
                meanings.push_back(meaning);
        }
        std::ranges::stable_sort(meanings, {}, [](const Meaning& meaning) {
            return std::tuple(-static_cast<double>(meaning.followers), meaning.candidate.rank(),
                              meaning.placed.fit.distance);
        });
        return meanings;
    }

    /// True for steps that an array was computed from, which it can be once more, changed, as after dropout.
    bool are_read(const Target& target, std::size_t i) const
    {
        const std::set<std::size_t> read = steps_before(i);
        return std::ranges::all_of(target.steps, [&](std::size_t step) { return read.contains(step); });
    }

    void take(std::size_t i, const Placed& placed)
    {
        place(i, placed, "by what follows from it", true);
        has_meaning_ = true;
    }

    /// Tries an array together with an earlier one that nothing followed from alone, as where queries and keys are both wrong.
    bool mean_together(std::size_t i, const std::vector<Meaning>& meanings)
    {
        const bool had_meaning = has_meaning_;
        for (const auto& [other, others] : open_) {
            const auto reader = common_reader(i, other);
            if (!reader)
                continue;
            for (const Meaning& theirs : others) {
                take(other, theirs.placed);
                for (const Meaning& mine : meanings) {
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
            const auto before =
                graph_.all_before(names_[k], [this](const std::string& name) { return is_a_step(name); });
            if (before.contains(names_[one]) && before.contains(names_[other]))
                return k;
        }
        return std::nullopt;
    }

    /// The mask that a wrong array was computed from, where it is the only one and none of the reference's.
    std::optional<std::string> wrong_mask(std::size_t i)
    {
        const auto before = graph_.all_before(names_[i], [this](const std::string& name) { return is_a_step(name); });
        std::vector<std::string> masks;
        for (const std::string& name : graph_.order())
            if (before.contains(name) && mine_.contains(name) && AllowedKeys::is_mask(*mine_.find(name)->second))
                masks.push_back(name);
        const auto is_wrong = [&](const std::string& name) { return !allowed_.say(*mine_.find(name)->second); };
        if (masks.empty() || !std::ranges::all_of(masks, is_wrong))
            return std::nullopt;
        // What is right by itself is wrong where it goes on alone.
        return allowed_.has_step(*mine_.find(masks.front())->second) && masks.size() > 1 ? masks[1] : masks.front();
    }

    /// The first of the arrays that one was computed from that stands for steps which a target is not computed from, and that nothing
    /// right is computed from, either: it has another array's numbers.
    std::optional<std::string> foreign_read(std::size_t i, const Target& target)
    {
        if (!has_missing_source(i, target))
            return std::nullopt; // a call is given more than it uses
        const auto has_source_in = [&](const Target& of, const std::string& name) {
            const std::set<std::size_t>& sources = known_before(of);
            return std::ranges::any_of(steps_of(name), [&](std::size_t step) { return sources.contains(step); });
        };
        const auto before = graph_.all_before(names_[i], [this](const std::string& name) { return is_a_step(name); });
        for (const std::string& name : graph_.order()) {
            const auto reads_it = [&](const std::string& reader) {
                return std::ranges::find(graph_.reads(reader), name) != graph_.reads(reader).end();
            };
            if (!is_a_step(name) || has_source_in(target, name) || std::ranges::none_of(before, reads_it))
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
        return std::ranges::any_of(targets_, [&](const Target& target) {
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
    std::size_t followers_of(std::size_t i, const Placed& placed, const std::vector<std::size_t>& readers)
    {
        place(i, placed, "", true);
        const auto follow = std::ranges::count_if(
            readers, [&](std::size_t reader) { return follows(reader, {placed.target->first()}); });
        unplace(i);
        return static_cast<std::size_t>(follow);
    }

    const ArrayViews& mine_;
    const AllowedKeys allowed_;
    std::optional<Rows> rows_;                                         ///< once they were asked for
    std::optional<std::set<std::string, std::less<>>> innocent_names_; ///< the same
    std::map<std::string, bool, std::less<>> is_right_;                ///< as far as it is known
    std::map<std::string, bool, std::less<>> is_explained_;  ///< of arrays that are no steps, as far as it is known
    std::size_t explained_at_ = 0;                           ///< the changes() of which is_explained_ is
    std::set<std::size_t> exact_;                            ///< steps whose numbers an array has
    const double least_left_ = current_budget()->left() / 2; ///< of the budget, so that all can be judged
    std::set<std::size_t> given_up_;                         ///< arrays that no step was found for
    std::map<std::size_t, std::vector<Meaning>> open_;       ///< those that can be known with another one
    std::string fault_;
    std::optional<std::string> my_result_;
    bool has_meaning_ = false;                             ///< some wrong array is a step, since others follow from it
    std::optional<std::pair<std::size_t, Placed>> likely_; ///< the first wrong array, and what it is most like, else
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
