#pragma once

#include "altered.hpp"
#include "edits.hpp"
#include "world.hpp"

#include <map>
#include <string>
#include <utility>
#include <vector>

/// Which mistakes are likely, before any is made in a whole program.
namespace attn::diff {

/// What edits do to a wrong step, to first order: the change of each step that is edited, times the gradient of the wrong step there.
/// So a model with a hundred million weights is walked backwards a few times, and not forwards once for each mistake.
class FirstOrder {
public:
    /// Both outlive this.
    /// @throws Error  where the way back can't be computed, or not within the budget
    FirstOrder(const Wrong& wrong, Diff::World& world);

    static constexpr double unlikely = 2; ///< of what goes the other way, or is not known

    /// How unlike what is wrong the effect of edits is, in direction and, less so, in size: from 0, the same.
    double unlikeness(const Edits& edits);

private:
    using Effect = std::vector<double>; ///< along each direction

    void walk_back(const Array& direction);
    const Effect& effect_of(std::size_t step, const std::string& formula);
    void add_change(std::size_t step, const Array& changed, Effect& effect, std::size_t depth = 0);

    const Wrong& wrong_;
    Diff::World& world_;
    double length_;                                       ///< of what is wrong
    std::vector<std::map<std::size_t, Array>> gradients_; ///< along what is wrong first, then along random directions
    std::map<std::size_t, std::vector<std::size_t>> users_;
    std::map<std::pair<std::size_t, std::string>, Effect> effects_;
};

} // namespace attn::diff
