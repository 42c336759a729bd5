// The verdict on one array: the same, noise, another layout, wrong itself, or wrong because an earlier one is.

#include "judge.hpp"

#include "attn/core/budget.hpp"
#include "attn/formula/expression.hpp"
#include "attn/formula/scope.hpp"
#include "attn/mistakes/head_scope.hpp"
#include "effect.hpp"
#include "layouts.hpp"
#include "softmax.hpp"
#include "type_evidence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

namespace attn::diff {
namespace {

// An input is rounded once, and so is the reference's.
constexpr double roundings_of_input = 2;
// Where the gradients begin, MINE can have computed them from its own output: softmax(logits) less the target.
constexpr double roundings_of_seed = 8;

/// By which factor all numbers are off, where that is one; where both are zero, any is.
std::optional<double> common_factor(const Array& found, const Array& expected, Tolerance tolerance)
{
    double dot = 0, square = 0;
    for (std::size_t i = 0; i < found.size(); ++i)
        if (std::isfinite(expected.values[i])) {
            dot += found.values[i] * expected.values[i];
            square += expected.values[i] * expected.values[i];
        }
    const double factor = dot / square;
    if (!std::isfinite(factor) || factor == 0 || found.size() < 2)
        return std::nullopt;
    Array scaled = expected;
    for (double& value : scaled.values)
        if (std::isfinite(value))
            value *= factor;
    tolerance.common *= 1 + std::abs(factor);
    for (double& one : tolerance.each)
        one *= 1 + std::abs(factor);
    return agrees(found, scaled, tolerance) ? std::optional(factor) : std::nullopt;
}

/// True for the gradient that all others begin from.
bool is_seed(const Step& step) { return step.formula.empty() && step.path.starts_with(formula::gradient_scope); }

std::string what_is_wrong(const Distance& distance)
{
    if (distance.nans > 0)
        return fmt::format("is NaN in {}", distance.nans);
    if (distance.infinities > 0)
        return fmt::format("is infinite in {}", distance.infinities);
    return fmt::format("differs in {}", distance.beyond);
}

double number_at(const Array& array, const Shape& index)
{
    std::size_t offset = 0;
    for (std::size_t axis = 0; axis < index.size(); ++axis)
        offset = offset * array.shape[axis] + index[axis];
    return array.values[offset];
}

/// Judges the arrays of MINE, one after the other in the order of the steps.
class Judge {
public:
    Judge(Diff& diff, const DiffOptions& options, bool is_trial)
        : diff_(diff), world_(*diff.world), options_(options), is_trial_(is_trial)
    {
    }

    /// @param is_same  bit by bit the reference's
    void judge(const Claim& claim, bool is_same)
    {
        const std::size_t step = claim.step;
        Diff::World::Known& known = world_.known[step];
        const bool is_first = !std::exchange(known.is_claimed, true);
        StepDiff& result = diff_.steps.emplace_back();
        result.step = &world_.original(step);
        result.mine = claim.mine;
        if (claim.array == nullptr) {
            result.verdict = DiffVerdict::bug;
            result.message = claim.complaint;
            known.is_wrong = true;
            return;
        }
        result.shape = claim.array->shape;
        own_ = claim.array;
        is_found_ = !claim.found.empty();
        if (!is_same)
            judge_differing(*claim.array, step, result);
        known.is_wrong = known.is_wrong || !result.passed();
        if (!is_first)
            return;
        world_.steps.set(step, own_, !is_same);
        known.dumped = own_ == claim.array ? nullptr : claim.array;
    }

private:
    const Step& label(std::size_t step) const { return world_.reference[step]; }
    bool is_overridden() const { return options_.atol || options_.rtol; }

    DiffVerdict fine() const
    {
        return diff_.type == NumberType::float64 && !is_overridden() ? DiffVerdict::equal : DiffVerdict::noise;
    }

    /// What an array has to be, and how far it can be from that.
    struct Expected {
        const Array* reference;
        std::optional<Diff::World::Recomputed> again; ///< from MINE's own operands, where their shapes are right
        Tolerance tolerance;
        std::string trouble; ///< why the formula can't be computed

        const Array& value() const { return again ? again->value : *reference; }
    };

    Diff::World::Recomputed recompute(std::size_t step, std::size_t draws, bool as_dumped = false)
    {
        Diff::World::Recomputed result = world_.recompute(step, draws, as_dumped);
        if (is_overridden())
            result.tolerance = tolerance_that_is_given(result.value);
        return result;
    }

    Tolerance tolerance_that_is_given(const Array& expected) const
    {
        Tolerance tolerance{options_.atol.value_or(0), std::vector<double>(expected.size())};
        for (std::size_t i = 0; i < expected.size(); ++i)
            if (std::isfinite(expected.values[i]))
                tolerance.each[i] = options_.rtol.value_or(0) * std::abs(expected.values[i]);
        return tolerance;
    }

    /// An input is rounded once, each number for itself, if it is no result.
    Tolerance tolerance_of_input(std::size_t step) const
    {
        const Array& expected = label(step).value;
        if (is_overridden())
            return tolerance_that_is_given(expected);
        if (expected.type != ElementType::real || std::ranges::all_of(expected.values, is_whole))
            return {};
        Tolerance tolerance{smallest_of(diff_.type), std::vector<double>(expected.size())};
        tolerance.common += roundings_of_result * roundoff_of(NumberType::float64) * largest_of(expected);
        if (is_seed(label(step)))
            tolerance.common += roundings_of_seed * roundoff_of(diff_.type) * largest_of(expected);
        for (std::size_t i = 0; i < expected.size(); ++i)
            if (std::isfinite(expected.values[i]))
                tolerance.each[i] = roundings_of_input * roundoff_of(diff_.type) * std::abs(expected.values[i]);
        return tolerance;
    }

    Expected expected_of(const Array& found, std::size_t step, std::size_t draws)
    {
        Expected expected{&label(step).value, {}, {}, {}};
        if (!label(step).formula.empty())
            try {
                expected.again = recompute(step, draws);
            } catch (const formula::FormulaError& error) {
                expected.trouble = error.what();
            }
        if (expected.again && expected.again->value.shape != expected.reference->shape)
            expected.again.reset(); // an operand of another shape is the cause, and is reported
        expected.tolerance = expected.again ? expected.again->tolerance : tolerance_of_input(step);
        // However uncertain its scores are, rounding does not change what a row of a softmax sums to.
        if (!is_overridden() && scores_of_softmax(label(step).formula) &&
            has_other_row_sums(found, *expected.reference))
            expected.tolerance = world_.tolerance_of(*expected.reference);
        return expected;
    }

    /// The same from weights whose rows sum to exactly one; nothing where MINE has no weights that the step is computed from.
    std::optional<Expected> expected_from_normalised(std::size_t step)
    {
        Expected expected{&label(step).value, {}, {}, {}};
        try {
            expected.again = world_.recompute_from_normalised(step, more_draws);
        } catch (const formula::FormulaError&) { // which is said where the weights are as they are
        }
        if (!expected.again || expected.again->value.shape != expected.reference->shape)
            return std::nullopt;
        expected.tolerance = expected.again->tolerance;
        return expected;
    }

    void judge_differing(const Array& found, std::size_t step, StepDiff& result)
    {
        const Array& reference = label(step).value;
        const bool is_input = label(step).formula.empty();
        // Differences within the user's tolerance, or of one rounding per number, are accepted without computing.
        const Tolerance least = is_overridden() ? tolerance_that_is_given(reference) : world_.tolerance_of(reference);
        if ((is_overridden() || !is_input) && agrees(found, reference, least))
            return pass(found, least, step, result);

        std::optional<Diff::World::Recomputed> plain = recompute_plainly(found, step);
        if (plain && accepts_plainly(found, *plain, step, result))
            return;
        const bool is_surely_off =
            is_trial_ && plain && is_far_off(found, plain->value) && is_far_off(found, reference);
        Expected expected = is_surely_off ? Expected{&reference, std::move(plain), world_.tolerance_of(reference), {}}
                                          : expected_of(found, step, 1);
        if (accepts(found, expected, step, result))
            return;
        if (expected.again && !is_overridden() && found.size() == reference.size() && is_near(found, expected)) {
            expected = expected_of(found, step, more_draws);
            if (accepts(found, expected, step, result))
                return;
            if (const auto normalised = expected_from_normalised(step);
                normalised && accepts(found, *normalised, step, result))
                return;
        }
        // Shifted scores of few digits can be the right ones in another order, too.
        if ((is_input && is_rounded_input(found, step, result)) || is_without_effect(found, expected, step, result) ||
            recognised(found, expected, step, result))
            return;
        if (follows_as_dumped(found, step))
            return inherit(found, expected.tolerance, step, result);
        blame(found, expected, step, result);
    }

    /// The same as accepts(), where the numbers alone are enough to say so: how far off right ones can be takes several times as
    /// long to compute.
    bool accepts_plainly(const Array& found, const Diff::World::Recomputed& plain, std::size_t step, StepDiff& result)
    {
        if (!agrees(found, plain.value, plain.tolerance))
            return false;
        const bool is_innocent = !world_.has_wrong_operand(step);
        if (is_innocent)
            pass(found, plain.tolerance, step, result);
        else if (is_far_off(found, label(step).value))
            inherit(found, plain.tolerance, step, result);
        return is_innocent || !result.passed();
    }

    /// What a step's formula gives; nothing where it can't be computed, or numbers alone don't say whether an array is right.
    std::optional<Diff::World::Recomputed> recompute_plainly(const Array& found, std::size_t step)
    {
        const Array& reference = label(step).value;
        if (is_overridden() || label(step).formula.empty() || found.shape != reference.shape ||
            (scores_of_softmax(label(step).formula) && has_other_row_sums(found, reference)))
            return std::nullopt;
        try {
            Diff::World::Recomputed plain = world_.recompute_plainly(step);
            return plain.value.shape == reference.shape ? std::optional(std::move(plain)) : std::nullopt;
        } catch (const formula::FormulaError&) {
            return std::nullopt;
        }
    }

    /// True where other roundings than those of one draw can be as large as what an array is off by.
    static bool is_near(const Array& found, const Expected& expected)
    {
        constexpr double most_unlucky = 100;
        Tolerance tolerance = expected.tolerance;
        tolerance.common *= most_unlucky;
        for (double& each : tolerance.each)
            each *= most_unlucky;
        return agrees(found, expected.value(), tolerance) || agrees(found, *expected.reference, tolerance);
    }

    /// True where no tolerance that is measured is as large as how far an array is from another one.
    bool is_far_off(const Array& found, const Array& reference) const
    {
        constexpr double most_roundings = 0x1p20;
        return !agrees(found, reference, {most_roundings * roundoff_of(world_.type) * largest_of(reference)});
    }

    /// True, and says so in the result, where the array is the reference's, or follows from MINE's own operands.
    bool accepts(const Array& found, const Expected& expected, std::size_t step, StepDiff& result)
    {
        const bool follows = expected.again && agrees(found, expected.again->value, expected.tolerance);
        const bool is_innocent = !is_overridden() && !world_.has_wrong_operand(step);
        if (agrees(found, *expected.reference, expected.tolerance) || (follows && is_innocent))
            pass(found, expected.tolerance, step, result);
        else if (follows)
            inherit(found, expected.tolerance, step, result);
        else
            return false;
        return true;
    }

    /// An input that was rounded to a shorter type before MINE computed with it.
    bool is_rounded_input(const Array& found, std::size_t step, StepDiff& result)
    {
        const NumberType type = type_rounded_to(found, label(step).value);
        if (is_overridden() || type == NumberType::float64)
            return false;
        describe(found, label(step).value, tolerance_of_input(step), step, result);
        result.verdict = DiffVerdict::noise;
        result.rounded_to = type;
        world_.has_rounded_inputs = true;
        return true;
    }

    void pass(const Array& found, const Tolerance& tolerance, std::size_t step, StepDiff& result) const
    {
        describe(found, label(step).value, tolerance, step, result);
        const bool is_off = world_.has_rounded_inputs && result.distance.beyond > 0;
        result.verdict = is_off ? DiffVerdict::noise : fine();
    }

    void describe(const Array& found, const Array& judged_by, const Tolerance& tolerance, std::size_t step,
                  StepDiff& result) const
    {
        result.distance = distance_of(found, label(step).value, judged_by, tolerance, diff_.type);
        result.place = place_of(label(step), result.distance.worst);
        if (result.distance.differing > 0)
            result.window = window_around(result.distance.worst, found, label(step).value);
    }

    void inherit(const Array& found, const Tolerance& tolerance, std::size_t step, StepDiff& result)
    {
        describe(found, label(step).value, tolerance, step, result);
        result.verdict = DiffVerdict::inherited;
        result.message = inherited_message(step);
    }

    std::string inherited_message(std::size_t step)
    {
        return world_.has_wrong_operand(step)
                   ? "is right for MINE's own operands: the cause is an earlier step"
                   : "is off by more than --atol and --rtol allow, but right for MINE's own operands";
    }

    /// MINE's array as the reference's in another layout, or as the array of another head. What is found by its numbers can
    /// have its axes in any order.
    bool recognised(const Array& found, const Expected& expected, std::size_t step, StepDiff& result)
    {
        const std::size_t heads = heads_around(label(step).path, world_.reference);
        const Array& reference = *expected.reference;
        const Tolerance& tolerance = expected.tolerance;
        std::optional<Layout> layout;
        if (const auto other = other_head(found, tolerance, step))
            layout = Layout{*other, {}};
        if (!layout)
            layout = recognise(found, {label(step), expected.value(), tolerance, heads});
        if (!layout)
            return false;
        // Tokens that are nearly the same look right in any order. The gradient of a square map is turned by its neighbours.
        const bool is_free = is_found_ && !label(step).path.starts_with(formula::gradient_scope);
        if (is_free && layout->has_other_axes && follows_from_wrong(expected, step)) {
            result.verdict = DiffVerdict::inherited;
            result.message = inherited_message(step);
        } else if (is_free && layout->has_other_axes) {
            result.verdict = fine();
        } else {
            result.verdict = DiffVerdict::layout;
            result.layout = layout->text;
            result.message = layout->text;
        }
        if (found.shape == reference.shape)
            describe(found, reference, tolerance, step, result);
        if (!layout->value.shape.empty()) {
            world_.kept.push_back(std::move(layout->value));
            own_ = &world_.kept.back();
        } else if (found.shape != reference.shape) {
            own_ = nullptr;
        }
        return true;
    }

    std::optional<std::string> other_head(const Array& found, const Tolerance& tolerance, std::size_t step) const
    {
        const auto scope = mistakes::head_scope(label(step).path);
        const std::size_t heads = scope ? heads_around(label(step).path, world_.reference) : 0;
        for (std::size_t head = 0; head < heads; ++head) {
            const auto other = world_.names.find(fmt::format("{}head.{}{}", scope->before, head, scope->rest));
            if (other && *other != step && agrees(found, label(*other).value, tolerance) &&
                !same_numbers(label(*other).value, label(step).value))
                return fmt::format("is the reference's head {}", head);
        }
        return std::nullopt;
    }

    /// True where the step is right for operands in the layout that MINE has them in.
    bool follows_as_dumped(const Array& found, std::size_t step)
    {
        if (std::ranges::none_of(world_.operands(step),
                                 [&](std::size_t operand) { return world_.known[operand].dumped != nullptr; }))
            return false;
        try {
            const Diff::World::Recomputed again = recompute(step, 1, true);
            return agrees(found, again.value, again.tolerance);
        } catch (const formula::FormulaError&) {
            return false;
        }
    }

    bool is_without_effect(const Array& found, const Expected& expected, std::size_t step, StepDiff& result)
    {
        if (!expected.again || is_overridden())
            return false;
        const auto why = why_without_effect(world_, step, found, *expected.again);
        if (!why)
            return false;
        const bool is_inherited = follows_from_wrong(expected, step);
        describe(found, expected.value(), expected.tolerance, step, result);
        result.verdict = is_inherited ? DiffVerdict::inherited : DiffVerdict::no_effect;
        result.message = is_inherited ? inherited_message(step) : *why;
        return true;
    }

    /// True where MINE's own operands give other numbers than the reference's: what has those numbers is wrong with them.
    bool follows_from_wrong(const Expected& expected, std::size_t step)
    {
        return world_.has_wrong_operand(step) && !agrees(expected.value(), *expected.reference, expected.tolerance);
    }

    bool leads_to_gradients(std::size_t step)
    {
        for (std::size_t user = step + 1; user < world_.reference.size(); ++user)
            if (const auto& operands = world_.operands(user); label(user).path.starts_with(formula::gradient_scope) &&
                                                              std::ranges::find(operands, step) != operands.end())
                return true;
        return false;
    }

    void blame(const Array& found, const Expected& expected, std::size_t step, StepDiff& result)
    {
        result.verdict = DiffVerdict::bug;
        for (const std::size_t unknown : world_.unknown_before(step))
            result.through.push_back(world_.reference[unknown].path);
        if (found.shape != expected.reference->shape) {
            own_ = nullptr;
            const auto part = recognise_part(found, {label(step), *expected.reference, expected.tolerance});
            result.message = part ? *part
                                  : fmt::format("has the shape {}, expected {}", to_string(found.shape),
                                                to_string(expected.reference->shape));
            return;
        }
        // NaN where a query can attend to nothing is not what is wrong.
        const Array seen = is_softmax(label(step)) ? zeros_in_empty_rows(found, *expected.reference) : found;
        describe(seen, expected.value(), expected.tolerance, step, result);
        result.message = fmt::format("{} of its {} numbers{}", what_is_wrong(result.distance), found.size(),
                                     where_to_look(expected, step, result.distance.worst));
        const auto factor = common_factor(seen, expected.value(), expected.tolerance);
        const std::string times =
            fmt::format("{:.{}g}", factor.value_or(1), diff_.type == NumberType::bfloat16 ? 3 : 5);
        if (times != "1")
            result.message += fmt::format("; all of them are {} times as large", times);
    }

    /// Where the cause of a wrong array can be, as the end of a sentence about it.
    std::string where_to_look(const Expected& expected, std::size_t step, const Shape& worst)
    {
        const Step& right = label(step);
        if (is_seed(right) && leads_to_gradients(step))
            return ": the gradients begin here, so MINE has another loss, or attn grad --seed was given another one";
        if (is_seed(right))
            return ": the reference does not say what it follows from, so the cause can be an earlier step";
        if (right.formula.empty())
            return ": it is an input, so MINE was given other numbers";
        if (!expected.trouble.empty())
            return "; its formula can't be computed: " + expected.trouble;
        return fmt::format(": from MINE's own operands, {} gives {}{}", right.formula,
                           number_text(number_at(expected.value(), worst), diff_.type),
                           worst.empty() ? "" : " at " + bracketed(worst));
    }

    Diff& diff_;
    Diff::World& world_;
    const DiffOptions& options_;
    const bool is_trial_;
    const Array* own_ = nullptr; ///< of the array that is judged, in the reference's layout
    bool is_found_ = false;      ///< that array, by its numbers
};

} // namespace

void judge(Diff& diff, const DiffOptions& options, const std::vector<bool>& is_same, bool is_trial)
{
    Judge judge(diff, options, is_trial);
    Diff::World& world = *diff.world;
    std::vector<Claim>& claims = world.claims.claims;
    for (std::size_t i = 0; i < claims.size(); ++i)
        try {
            judge.judge(claims[i], is_same[i]);
        } catch (const BudgetError&) {
            world.known[claims[i].step].is_claimed = i > 0 && claims[i - 1].step == claims[i].step;
            world.is_cut = true;
            diff.steps.resize(i);
            claims.resize(i);
        }
}

} // namespace attn::diff
