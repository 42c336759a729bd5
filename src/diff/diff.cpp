// What became of each step: the same, noise, laid out otherwise, wrong by itself, or wrong since an earlier one is.

#include "attn/diff/diff.hpp"

#include "attn/error.hpp"
#include "attn/formula/expression.hpp"
#include "compare.hpp"
#include "layouts.hpp"
#include "names.hpp"
#include "read.hpp"
#include "world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace attn {
namespace {

// An input is rounded once, and so is the reference's.
constexpr double roundings_of_input = 2;

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

/// Judges the arrays of MINE, one after the other in the order of the steps.
class Judge {
public:
    Judge(Diff& diff, const DiffOptions& options) : diff_(diff), world_(*diff.world), options_(options) {}

    void judge(const Claim& claim, bool is_same)
    {
        const std::size_t step = claim.step;
        Diff::World::Known& known = world_.known[step];
        const bool is_first = !std::exchange(known.is_claimed, true);
        StepDiff& result = diff_.steps.emplace_back();
        result.step = &world_.reference[step];
        result.mine = claim.mine;
        if (claim.array == nullptr) {
            result.verdict = DiffVerdict::bug;
            result.message = claim.complaint;
            known.is_wrong = true;
            return;
        }
        result.shape = claim.array->shape;
        own_ = claim.array;
        if (!is_same)
            judge_differing(*claim.array, step, result);
        known.is_wrong = known.is_wrong || !result.passed();
        if (!is_first)
            return;
        known.is_same = is_same;
        known.own = own_;
        known.dumped = own_ == claim.array ? nullptr : claim.array;
    }

private:
    const Step& label(std::size_t step) const { return world_.reference[step]; }
    bool is_overridden() const { return options_.atol || options_.rtol; }

    /// How far off a number may be that should be what an array has.
    Tolerance tolerance_beside(const Array& expected, std::vector<double> error, double moved) const
    {
        if (is_overridden()) {
            Tolerance tolerance{options_.atol.value_or(0), std::vector<double>(expected.size())};
            for (std::size_t i = 0; i < expected.size(); ++i)
                tolerance.each[i] =
                    options_.rtol.value_or(0) * (std::isfinite(expected.values[i]) ? std::abs(expected.values[i]) : 0);
            return tolerance;
        }
        return world_.tolerance_beside(expected, std::move(error), moved);
    }

    /// An input is rounded once, each number for itself.
    Tolerance tolerance_of_input(const Array& expected) const
    {
        if (is_overridden() || expected.type != ElementType::real)
            return tolerance_beside(expected, {}, 0);
        Tolerance tolerance{smallest_of(diff_.type), std::vector<double>(expected.size())};
        for (std::size_t i = 0; i < expected.size(); ++i)
            tolerance.each[i] = std::isfinite(expected.values[i])
                                    ? roundings_of_input * roundoff_of(diff_.type) * std::abs(expected.values[i])
                                    : 0;
        return tolerance;
    }

    DiffVerdict fine() const
    {
        return diff_.type == NumberType::float64 && !is_overridden() ? DiffVerdict::equal : DiffVerdict::noise;
    }

    void judge_differing(const Array& found, std::size_t step, StepDiff& result)
    {
        const Array& reference = label(step).value;
        // What the user allows, and what is no more than the rounding of each number, is decided without computing.
        const bool is_simple = is_overridden() || !label(step).formula.empty();
        if (const Tolerance least = tolerance_beside(reference, {}, 0); is_simple && agrees(found, reference, least)) {
            describe(found, reference, least, step, result);
            result.verdict = fine();
            return;
        }
        std::optional<Diff::World::Recomputed> again;
        std::string trouble;
        if (!label(step).formula.empty())
            try {
                again = world_.recompute(step);
            } catch (const FormulaError& error) {
                trouble = error.what();
            }
        if (again && again->value.shape != reference.shape)
            again.reset(); // an operand of another shape decides it, and that operand is told about
        const Array& expected = again ? again->value : reference;
        const Tolerance tolerance =
            again ? tolerance_beside(again->value, again->error, again->moved) : tolerance_of_input(reference);

        const bool follows = again && agrees(found, expected, tolerance);
        if (agrees(found, reference, tolerance) || (follows && !is_overridden() && !world_.has_wrong_operand(step))) {
            describe(found, reference, tolerance, step, result);
            result.verdict = fine();
            return;
        }
        if (follows) {
            inherit(found, tolerance, step, result);
            return;
        }
        if (recognised(found, expected, tolerance, step, result))
            return;
        if (follows_as_dumped(found, step)) {
            inherit(found, tolerance, step, result);
            return;
        }
        blame(found, expected, tolerance, step, trouble, result);
    }

    void describe(const Array& found, const Array& judged_by, const Tolerance& tolerance, std::size_t step,
                  StepDiff& result) const
    {
        result.distance = distance_of(found, label(step).value, judged_by, tolerance, diff_.type);
        result.place = place_of(label(step), result.distance.worst);
    }

    void inherit(const Array& found, const Tolerance& tolerance, std::size_t step, StepDiff& result) const
    {
        describe(found, label(step).value, tolerance, step, result);
        result.verdict = DiffVerdict::inherited;
        result.message = world_.has_wrong_operand(step)
                             ? "is right for MINE's own operands: an earlier step is to blame"
                             : "is off by more than --atol and --rtol allow, but right for MINE's own operands";
        if (const auto other = other_head(found, tolerance, step))
            result.layout = *other;
    }

    /// MINE's array as the reference's in another layout, or as the array of another head.
    bool recognised(const Array& found, const Array& expected, const Tolerance& tolerance, std::size_t step,
                    StepDiff& result)
    {
        const std::size_t heads = heads_around(label(step).path, world_.reference);
        const Array& reference = label(step).value;
        std::optional<Layout> layout;
        if (const auto other = other_head(found, tolerance, step))
            layout = Layout{*other, {}};
        for (const Array* target : {&reference, &expected})
            if (!layout && (target == &reference || &expected != &reference))
                layout = recognise(found, {label(step), *target, tolerance, heads});
        if (!layout)
            return false;
        result.verdict = DiffVerdict::layout;
        result.layout = layout->text;
        result.message = layout->text;
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
        const std::string& path = label(step).path;
        const std::size_t at = ("." + path).rfind(".head."), heads = heads_around(path, world_.reference);
        if (at == std::string::npos || heads < 2)
            return std::nullopt;
        const std::size_t begin = at + 5, end = path.find('.', begin);
        for (std::size_t head = 0; head < heads && end != std::string::npos; ++head) {
            const std::string other = path.substr(0, begin) + std::to_string(head) + path.substr(end);
            const auto number = world_.numbers.find(other);
            if (number != world_.numbers.end() && number->second != step &&
                agrees(found, label(number->second).value, tolerance) &&
                !same_numbers(label(number->second).value, label(step).value))
                return fmt::format("is the reference's head {}", head);
        }
        return std::nullopt;
    }

    /// True where the step is right for operands in the layout that MINE has them in.
    bool follows_as_dumped(const Array& found, std::size_t step)
    {
        const std::vector<std::size_t>& operands = world_.operands(step);
        if (std::ranges::none_of(operands, [&](std::size_t i) { return world_.known[i].dumped != nullptr; }))
            return false;
        try {
            const Diff::World::Recomputed again = world_.recompute(step, true);
            return agrees(found, again.value, tolerance_beside(again.value, again.error, again.moved));
        } catch (const FormulaError&) {
            return false;
        }
    }

    void blame(const Array& found, const Array& expected, const Tolerance& tolerance, std::size_t step,
               const std::string& trouble, StepDiff& result)
    {
        const Step& right = label(step);
        result.verdict = DiffVerdict::bug;
        for (const std::size_t unknown : world_.unknown_before(step))
            result.through.push_back(world_.reference[unknown].path);
        if (found.shape != right.value.shape) {
            own_ = nullptr;
            const auto part = recognise_part(found, {right, right.value, tolerance, 0});
            result.message = part ? *part
                                  : fmt::format("has the shape {}, expected {}", to_string(found.shape),
                                                to_string(right.value.shape));
            return;
        }
        describe(found, expected, tolerance, step, result);
        const Distance& distance = result.distance;
        if (distance.nans > 0)
            result.message = fmt::format("is NaN in {} of its {} numbers", distance.nans, found.size());
        else if (distance.infinities > 0)
            result.message = fmt::format("is infinite in {} of its {} numbers", distance.infinities, found.size());
        else
            result.message = fmt::format("differs in {} of its {} numbers", distance.beyond, found.size());
        if (right.formula.empty())
            result.message += ": an input, so other numbers went in";
        else if (!trouble.empty())
            result.message += "; its formula can't be computed: " + trouble;
        else
            result.message +=
                fmt::format(": from MINE's own operands, {} gives {} at {}", right.formula,
                            number_text(expected.values[offset_of(distance.worst, found.shape)], diff_.type),
                            cell_of("", distance.worst));
        if (const auto factor = common_factor(found, expected, tolerance))
            result.message += fmt::format("; all of them are {:.{}g} times as large", *factor,
                                          diff_.type == NumberType::bfloat16 ? 3 : 5);
    }

    static std::size_t offset_of(const Shape& index, const Shape& shape)
    {
        std::size_t offset = 0;
        for (std::size_t axis = 0; axis < shape.size(); ++axis)
            offset = offset * shape[axis] + index[axis];
        return offset;
    }

    Diff& diff_;
    Diff::World& world_;
    const DiffOptions& options_;
    const Array* own_ = nullptr; ///< of the array that is judged, in the reference's layout
};

Diff diff_of(const std::shared_ptr<Diff::World>& shared, const DiffOptions& options);

/// A line where everything would be noise in a coarser type: what is stored in float32 may be multiplied in fewer digits.
std::string hint_at_coarser_type(const Diff& diff, const DiffOptions& options)
{
    constexpr double nearly_parallel = 0.999;
    const StepDiff* wrong = diff.first_wrong();
    if (wrong == nullptr || wrong->verdict != DiffVerdict::bug || diff.type != NumberType::float32)
        return "";
    const Distance& distance = wrong->distance; // rounding moves many numbers, each by little
    const bool is_like_rounding = distance.nans == 0 && distance.infinities == 0 && distance.cosine > nearly_parallel &&
                                  distance.beyond > wrong->step->value.size() / 4;
    if (options.type || options.atol || options.rtol || !is_like_rounding)
        return "";
    for (const NumberType type : {NumberType::float16, NumberType::bfloat16}) {
        const auto again = std::make_shared<Diff::World>(diff.world->recording, NamedArrays{});
        again->views = diff.world->views;
        DiffOptions coarser = options;
        coarser.type = type;
        if (diff_of(again, coarser).count(DiffVerdict::bug) == 0)
            return fmt::format("in {0} this would be noise: if the program multiplies in {1}, say so with --type {0}",
                               name_of(type), type == NumberType::float16 ? "TF32 or float16" : "bfloat16");
    }
    return "";
}

/// What became of everything that is in a world.
Diff diff_of(const std::shared_ptr<Diff::World>& shared, const DiffOptions& options)
{
    Diff result;
    result.world = shared;
    Diff::World& world = *shared;
    const std::vector<Step>& reference = world.reference;
    world.claims = claims_of(reference, world.views, options);
    const std::vector<Claim>& claims = world.claims.claims;

    std::vector<bool> is_same;
    TypeEvidence evidence;
    for (const Claim& claim : claims)
        is_same.push_back(claim.array != nullptr && same_numbers(*claim.array, reference[claim.step].value));
    if (std::ranges::find(is_same, false) != is_same.end()) {
        for (const Claim& claim : claims)
            if (claim.array != nullptr)
                evidence.add(*claim.array, reference[claim.step].value);
        result.type = options.type.value_or(evidence.type());
        result.hint = options.type ? "" : evidence.hint();
    }
    world.type = result.type;

    Judge judge(result, options);
    for (std::size_t i = 0; i < claims.size(); ++i)
        judge.judge(claims[i], is_same[i]);
    for (std::size_t i = 0; i < reference.size(); ++i)
        if (!world.known[i].is_claimed)
            result.missing.push_back(reference[i].path);
    result.extra = world.claims.extra;
    result.missing_fails = !result.missing.empty() && (options.all || claims.empty());
    result.extra_fails = !result.extra.empty() && (options.all || options.table == nullptr);
    if (result.hint.empty())
        result.hint = hint_at_coarser_type(result, options);
    return result;
}

} // namespace

const StepDiff* Diff::first_different() const
{
    const auto found = std::ranges::find_if(steps, [](const StepDiff& step) { return !step.passed(); });
    return found == steps.end() ? nullptr : &*found;
}

const StepDiff* Diff::first_wrong() const
{
    const auto found = std::ranges::find_if(steps, [](const StepDiff& step) {
        return step.verdict == DiffVerdict::bug || step.verdict == DiffVerdict::layout;
    });
    return found == steps.end() ? nullptr : &*found;
}

std::size_t Diff::count(DiffVerdict verdict) const
{
    return static_cast<std::size_t>(std::ranges::count(steps, verdict, &StepDiff::verdict));
}

bool Diff::passed() const
{
    return !missing_fails && !extra_fails &&
           std::ranges::all_of(steps, [](const StepDiff& step) { return step.passed(); });
}

Diff diff(const Recording& reference, NamedArrays mine, const DiffOptions& options)
{
    return diff_of(std::make_shared<Diff::World>(reference, std::move(mine)), options);
}

Diff diff(const Recording& reference, const std::filesystem::path& mine, const DiffOptions& options)
{
    const auto world = std::make_shared<Diff::World>(reference, NamedArrays{});
    read_each_array(mine, [&](const std::string& name, Array array) { world->add(name, std::move(array)); });
    return diff_of(world, options);
}

} // namespace attn
