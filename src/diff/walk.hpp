#pragma once

#include "attn/core/budget.hpp"
#include "masks.hpp"
#include "placement.hpp"

#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace attn::diff {

/// Takes MINE's arrays for steps by walking both programs from the inputs.
///
/// An array is explained where it is, in any layout, a step of the reference, or what follows for a step from MINE's own arrays.
/// One that is not, on the way to a result that is not explained either, is wrong: it is taken for the step that what MINE
/// computes from it then follows from.
class Walk : public Placement {
public:
    Walk(const Recording& reference, const ArrayViews& mine, const MyGraph& graph,
         const std::vector<std::string>& names, const Hypothesis& hypothesis)
        : Placement(reference, mine, graph, names, hypothesis), mine_(mine), allowed_(reference.steps)
    {
    }

    Matches matches();

private:
    /// Takes every array for the step whose numbers it has.
    void explain();
    void explain(std::size_t i, bool is_exact);
    void explain(std::size_t i, const std::optional<Placed>& found, bool is_exact);
    bool can_be_explained(std::size_t i) const;
    bool is_exhausted() const { return current_budget()->left() < least_left_; }
    void take_repeat_for_result();
    void place_result();

    /// The first array from which the result can be reached past what is explained; nothing where the result is explained.
    std::optional<std::size_t> first_unexplained();

    /// True for a step, for its inner results, and for what only takes a part of these or splits their axes.
    bool is_explained(const std::string& name);
    bool is_explained_array(const std::string& name);
    bool has_numbers_of_a_step(const Array& array);
    bool is_inside_a_step(const Array& array);
    bool is_longer(const Array& array);
    bool is_moved(const std::string& name);

    /// MINE's array for the result; nothing where it has none.
    std::optional<std::string> result_of_mine() const;

    /// Takes a wrong array for the step that it was meant to be, if there is one.
    void mean(std::size_t i);

    /// A step that a wrong array can have been meant to be.
    struct Candidate {
        const Target* target;
        ReadDistance by_reads;
        std::size_t words; ///< of the array's name

        std::tuple<std::size_t, double> rank() const { return {by_reads.all(), -static_cast<double>(words)}; }
    };
    /// The nearest by what the array was computed from first.
    std::vector<Candidate> candidates_for(std::size_t i);
    struct Meaning {
        Candidate candidate;
        Placed placed;
        std::size_t followers; ///< how many of the next arrays would follow from it
    };
    /// The best first.
    std::vector<Meaning> meanings_of(std::size_t i);
    bool can_be_masked(std::size_t i, const Target& target) const;
    bool is_my_result(std::size_t i) const;
    bool are_read(const Target& target, std::size_t i) const;
    void take(std::size_t i, const Placed& placed);
    bool mean_together(std::size_t i, const std::vector<Meaning>& meanings);
    std::optional<std::size_t> common_reader(std::size_t one, std::size_t other) const;
    std::optional<std::string> wrong_read(std::size_t i);
    std::optional<std::string> foreign_read(std::size_t i, const Target& target);
    bool follows(std::size_t i, const std::vector<std::size_t>& from);
    std::vector<std::size_t> first_readers(std::size_t i) const;
    std::size_t followers_of(std::size_t i, const Placed& placed, const std::vector<std::size_t>& readers);

    const ArrayViews& mine_;
    const AllowedKeys allowed_;
    std::map<std::string, bool, std::less<>> is_explained_;  ///< of arrays that are no steps, as far as it is known
    std::set<std::size_t> exact_;                            ///< steps whose numbers an array has
    const double least_left_ = current_budget()->left() / 2; ///< of the budget, so that all can be judged
    std::set<std::size_t> given_up_;                         ///< arrays that no step was found for
    std::map<std::size_t, std::vector<Meaning>> open_;       ///< those that can be known with another one
    std::string fault_;
    std::optional<std::string> my_result_;
    bool has_meaning_ = false;                             ///< some wrong array is a step, since others follow from it
    std::optional<std::pair<std::size_t, Placed>> likely_; ///< the first wrong array, and what it is most like, else
};

} // namespace attn::diff
