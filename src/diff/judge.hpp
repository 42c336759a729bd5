#pragma once

#include "world.hpp"

#include <optional>
#include <string>

namespace attn::diff {

/// Judges the arrays of MINE, one after the other in the order of the steps.
class Judge {
public:
    Judge(Diff& diff, const DiffOptions& options) : diff_(diff), world_(*diff.world), options_(options) {}

    /// @param is_same  bit by bit the reference's
    void judge(const Claim& claim, bool is_same);

private:
    const Step& label(std::size_t step) const { return world_.reference[step]; }
    bool is_overridden() const { return options_.atol || options_.rtol; }
    DiffVerdict fine() const;

    /// What an array has to be, and how far it can be from that.
    struct Expected {
        const Array* reference;
        std::optional<Diff::World::Recomputed> again; ///< from MINE's own operands, where their shapes are right
        Tolerance tolerance;
        std::string trouble; ///< why the formula can't be computed

        const Array& value() const { return again ? again->value : *reference; }
    };

    Diff::World::Recomputed recompute(std::size_t step, std::size_t draws, bool as_dumped = false);
    Tolerance tolerance_that_is_given(const Array& expected) const;
    Tolerance tolerance_of_input(std::size_t step) const;
    Expected expected_of(const Array& found, std::size_t step, std::size_t draws);
    std::optional<Expected> expected_from_normalised(std::size_t step);

    void judge_differing(const Array& found, std::size_t step, StepDiff& result);
    bool accepts(const Array& found, const Expected& expected, std::size_t step, StepDiff& result);
    bool is_rounded_input(const Array& found, std::size_t step, StepDiff& result);
    void pass(const Array& found, const Tolerance& tolerance, std::size_t step, StepDiff& result) const;
    void describe(const Array& found, const Array& judged_by, const Tolerance& tolerance, std::size_t step,
                  StepDiff& result) const;
    void inherit(const Array& found, const Tolerance& tolerance, std::size_t step, StepDiff& result);
    bool recognised(const Array& found, const Expected& expected, std::size_t step, StepDiff& result);
    std::optional<std::string> other_head(const Array& found, const Tolerance& tolerance, std::size_t step) const;
    bool follows_as_dumped(const Array& found, std::size_t step);
    bool is_without_effect(const Array& found, const Expected& expected, std::size_t step, StepDiff& result);
    bool leads_to_gradients(std::size_t step);
    void blame(const Array& found, const Expected& expected, std::size_t step, StepDiff& result);
    std::string where_to_look(const Expected& expected, std::size_t step, const Shape& worst);

    Diff& diff_;
    Diff::World& world_;
    const DiffOptions& options_;
    const Array* own_ = nullptr; ///< of the array that is judged, in the reference's layout
    bool is_found_ = false;      ///< that array, by its numbers
};

} // namespace attn::diff
