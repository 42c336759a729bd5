#pragma once

#include "compare.hpp"
#include "evidence.hpp"
#include "known_steps.hpp"
#include "matching.hpp"
#include "name_vocabulary.hpp"
#include "targets.hpp"

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace attn::diff {

/// An array that stands for a target in some layout.
struct Meaning {
    const StepSet* target = nullptr;
    Fit fit;
};

/// What arrays without a step's name are taken for so far, and which targets the others are near to.
class Placement {
public:
    /// All of these outlive the placement.
    /// @param mine   all arrays of MINE
    /// @param graph  what it says of them
    /// @param names  of those that are to be placed
    Placement(const Recording& reference, const ArrayViews& mine, const MyGraph& graph,
              const std::vector<std::string>& names, const Hypothesis& hypothesis);

    /// Takes note of what MINE has under the steps' names.
    void know(const std::vector<Claim>& claims);

protected:
    // -------------------------------------------------------------------------------------------------------- an array

    /// Masks, ids and lengths are not found by numbers: many steps have such numbers. A gradient says what it is.
    bool is_tensor(std::size_t i) const;

    bool is_zero(std::size_t i) const;

    /// True for an array that is called a gradient: it is none of the steps forward.
    bool says_gradient(std::size_t i) const { return meanings_[i].starts_with(formula::gradient_scope); }

    /// A single array is taken for the result, even where it has another step's numbers.
    bool is_the_result(std::size_t i) const;

    // -------------------------------------------------------------------------------------------- an array and targets

    /// A target of as many numbers; what is called keys is not the values, whatever its numbers are.
    bool fits(std::size_t i, const StepSet& target) const;

    /// Minus infinity stands in masked scores alone, where the reference has some of that size.
    bool can_be_masked(std::size_t i, const StepSet& target) const;

    /// The layout in which an array is nearest to what MINE would have for a target.
    std::optional<Meaning> placed_at(const StepSet& target, std::size_t i);

    /// The target that has an array's numbers in the reference, or nearly those; nothing where none is near enough.
    std::optional<Meaning> nearest_right(std::size_t i);

    /// The same of what follows from MINE's own arrays, where these are not the reference's.
    std::optional<Meaning> nearest_following(std::size_t i);

    /// The same of what would follow from the mistake that explains what is wrong.
    std::optional<Meaning> nearest_mistaken(std::size_t i);

    /// The same of scores, but for a shift of each row: softmax makes the same of them.
    std::optional<Meaning> nearest_shifted(std::size_t i);

    // -------------------------------------------------------------------------------------------- what is known so far

    /// How often an array was placed or taken back: as long as it is the same, so is all that is known.
    std::size_t changes() const { return changes_; }

    bool is_placed(std::size_t i) const { return placed_[i].target != nullptr; }
    const Meaning& placed(std::size_t i) const { return placed_[i]; }

    bool is_taken(const StepSet& target) const;

    /// How far a target is from what an array was computed from, as MINE says.
    struct ReadDistance {
        std::size_t foreign = 0; ///< steps that the array was computed from, and the target is not
        std::size_t between = 0; ///< steps that the target is computed from, and MINE has none of
        std::size_t all() const { return foreign + between; }
    };
    ReadDistance distance_by_reads(std::size_t i, const StepSet& target);

    /// True where a target is computed from something that does not follow from what an array was computed from.
    bool has_missing_source(std::size_t i, const StepSet& target);

    /// The arrays before one that stand for steps, each way back to the nearest.
    std::set<std::size_t> steps_before(std::size_t i) const;

    /// The steps that an array stands for, and whether it does.
    const std::vector<std::size_t>& steps_of(std::string_view name) const { return steps_of_.find(name)->second; }
    bool is_a_step(std::string_view name) const { return steps_of_.contains(name); }

    /// True for an array that has a step's name, and other numbers than the reference; and for one with these numbers.
    bool is_wrong_claim(std::string_view name) const { return wrong_claims_.contains(name); }

    /// All steps that a target follows from, and its own.
    const std::set<std::size_t>& known_before(const StepSet& target);

    /// The same past no step that is left out.
    template <class IsLeftOut>
    std::set<std::size_t> known_before_until(const StepSet& target, const IsLeftOut& is_left_out)
    {
        return known_.all_before(target.steps, is_left_out);
    }

    /// How many steps that MINE does not have a target follows from.
    std::size_t unknown_before(const StepSet& target);

    /// True where a formula computes an array's numbers on the way to its value, from the reference's arrays or from MINE's own.
    bool is_inside_a_step(const Array& array);

    /// MINE's own array of a step; nullptr where it has none.
    const Array* own(std::size_t step) const { return known_.own(step); }

    /// What MINE has as the reference has it.
    std::vector<std::size_t> right() const;

    /// The steps before those: none of them is wrong.
    std::set<std::size_t> innocent();

    // --------------------------------------------------------------------------------------------------------- placing

    /// @param replaces  what MINE had for these steps so far was changed into it
    void place(std::size_t i, const std::optional<Meaning>& placed, std::string_view how, bool replaces = false);

    /// The same of scores, without the shift of each row.
    void place_shifted(std::size_t i, const Meaning& placed);

    /// Takes an array for a step of another size.
    void place_misshapen(std::size_t i, std::size_t step);

    /// Takes back what was placed on free steps.
    void unplace(std::size_t i);

    /// Takes the array of a square map for one that is stored the other way round.
    void turn(std::size_t i);

    /// From now on, what single users add to a gradient is looked for, too, where that is right.
    void look_for_contributions();

    /// But for those that were tried, where the budget did not suffice to take them back.
    std::vector<Match> take_matches()
    {
        std::erase_if(matches_, [](const Match& match) { return match.found.how.empty(); });
        return std::move(matches_);
    }

    const MyGraph& graph_;
    Evidence& evidence_;
    const std::vector<Step>& steps_;
    const std::vector<StepSet>& targets_;
    const formula::StepNames& step_names_;
    const std::vector<std::string>& names_;
    const bool in_order_;
    const Hypothesis& hypothesis_;
    const bool has_gradients_;
    const StepSet* result_ = nullptr;
    const Array* reserved_ = nullptr; ///< what alone can be the result
    std::vector<const Array*> arrays_;
    std::vector<std::string> meanings_; ///< the names, with "grad." in front of those that say so

private:
    void know(std::size_t step, const Array& own);
    void unknow(std::size_t step);

    std::vector<std::vector<std::string>> axes_before(std::size_t i) const;

    /// The target that an array is nearest to, if it is near enough.
    /// @param fit_to  how an array has the numbers of a target
    template <class FitTo>
    std::optional<Meaning> nearest(std::size_t i, double near, const FitTo& fit_to);

    /// The same of numbers in an array's place.
    /// @param telling   how many of them tell something
    /// @param value_of  from the number of a step to a pointer to its array; nullptr where it has none
    template <class ValueOf>
    std::optional<Meaning> nearest_of(std::size_t i, const Array& numbers, std::size_t telling,
                                      const ValueOf& value_of);

    double near_of(std::size_t i, std::size_t telling) const;

    /// True for what one user adds to a gradient that can be wrong: an array with these numbers can be that gradient, without
    /// what the others add.
    bool is_overwritten_sum(const StepSet& target) const;

    /// True where what MINE has for this target has an array's numbers: that is the same once more, perhaps in another layout.
    bool is_copied(const StepSet& target, std::size_t i) const;

    /// One that is not masked: it has more numbers to compare. Equally near: one that MINE has the same numbers for, then one
    /// that no other array is.
    bool is_better(const Meaning& one, const Meaning& other, std::size_t i);

    void place(std::size_t i, const Meaning& placed, std::string_view how, std::vector<Match::Part> parts,
               bool replaces = false);

    std::vector<Match::Part> parts_of(std::size_t i, const Meaning& placed, bool with_copies = false) const;

    /// What each softmax is taken of, by step, with the largest number of each row at zero.
    std::map<std::size_t, Array> all_scores();

    KnownSteps known_;
    std::vector<Meaning> placed_;
    std::size_t changes_ = 0;
    std::map<std::size_t, std::vector<const Array*>> replaced_; ///< what MINE had before for the steps of each array
    std::vector<Match> matches_;
    std::map<std::string, std::vector<std::size_t>, std::less<>> steps_of_; ///< that arrays stand for, by their names
    std::set<std::string, std::less<>> wrong_claims_;
    std::set<std::size_t> wrongly_claimed_;                   ///< the steps that those by name stand for
    std::map<const StepSet*, std::set<std::size_t>> sources_; ///< known_before()
    std::map<std::size_t, std::vector<Array>>
        following_inner_results_;                        ///< by step, as they follow from MINE's own arrays
    std::set<std::size_t> innocent_;                     ///< steps that something right follows from
    std::optional<std::map<std::size_t, Array>> scores_; ///< all_scores(), once they were asked for
};

/// True for what one user of a step adds to its gradient.
bool is_contribution(const StepSet& target);

} // namespace attn::diff
