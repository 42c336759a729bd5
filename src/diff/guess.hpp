#pragma once

#include "placement.hpp"

#include <optional>
#include <set>
#include <string>

namespace attn::diff {

/// Which step a wrong array was meant to be.
class Guesser : public Placement {
public:
    Guesser(const Recording& reference, const ArrayViews& mine, const MyGraph& graph,
            const std::vector<std::string>& names, const Hypothesis& hypothesis);

protected:
    /// The step that a wrong array fits best. Nothing follows from the gradient of a weight, so that all others are right
    /// tells nothing of it: it is looked for even where no other array is to be guessed.
    std::optional<Placed> best_guess(std::size_t i);

private:
    /// True for a free target that a wrong array can have been meant to be, by all that its name and its place say.
    bool can_be_meant(std::size_t i, const Target& target) const;
    bool can_be_this_gradient(std::size_t i, const Target& target) const;
    bool can_be_this_step(std::size_t i, const Target& target) const;

    /// The gradient of an input or a weight that an array can be which is not called one: the only one of its size
    /// that MINE does not have, where all else that MINE has are gradients. A weight that has been trained on is none.
    std::optional<Placed> only_gradient_left(std::size_t i);

    /// True for the gradient of a weight or an input.
    bool is_gradient_of_input(const Target& target) const;

    /// True for the first gradient of MINE, and a target that all gradients begin from.
    bool begins_with(std::size_t i, const Target& target) const;

    /// True where MINE has gradients, or steps that are none.
    bool has_any(bool of_gradients) const;

    /// False for a target that is not over keys, as those are that the reference masks.
    bool can_be_masked(const Target& target) const;

    /// True for a step outside the layers, where the array's name says which layer it is of.
    bool is_outside_layers(std::size_t i, const Target& target) const;

    /// True where MINE has all that was found so far in the order of the steps.
    bool is_ordered() const;

    /// How well an array stands for a target by its name, its place, and how near it is.
    double likelihood(std::size_t i, const Placed& placed) const;

    /// True where a target comes after the arrays that MINE has before this one, and before those after it.
    bool is_between_neighbours(std::size_t i, const Target& target) const;

    /// How many of the arrays after it would be right for what MINE has before them.
    std::size_t followers_of(std::size_t i, const Placed& placed);

    const std::set<std::string> masked_axes_;
    const bool has_layers_;
};

} // namespace attn::diff
