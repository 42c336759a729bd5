// What MINE computed, as far as it follows from its arrays.

#include "world.hpp"

#include "compare.hpp"
#include "operands_first.hpp"

#include "attn/formula/expression.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

namespace attn {
namespace {

// What the measured change by other roundings is multiplied with: a draw is not the worst case.
constexpr double noise_factor = 3;
// The evaluator's bound is of first order, and both computations err.
constexpr double sum_factor = 6;
// Roundings of a result beside the largest number of its array.
constexpr double stored_roundings = 2;
// Roundings inside a formula that an operand shows which is moved, and an exact one doesn't.
constexpr double unmeasured_roundings = 2;
// No formula makes more of a rounding than this, nor more than half of the largest number out of it: what does is no noise.
constexpr double most_growth = 0x1p16, most_relative = 0.5;

/// Plus or minus one, the same for the same number in each run.
double sign_of(std::size_t draw, std::size_t step, std::size_t i)
{
    std::uint64_t bits = (step + 1 + (draw << 32)) * 0x9E3779B97F4A7C15u + i * 0xBF58476D1CE4E5B9u;
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9u;
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBu;
    return ((bits >> 40) & 1) == 0 ? 1 : -1;
}

/// The largest change from the first array to the second.
double largest_move_of(const Array& plain, const Array& moved)
{
    double largest = 0;
    for (std::size_t i = 0; plain.shape == moved.shape && i < plain.size(); ++i) {
        const double from = plain.values[i], to = moved.values[i], move = std::abs(from - to);
        // From one whole number to another: a formula that jumps, such as where(x > 0, 1, 0), which is no rounding.
        if (std::isfinite(move) && !(is_whole(from) && is_whole(to)))
            largest = std::max(largest, move);
    }
    return largest;
}

/// Sums are added in float32 or better: no machine adds many numbers of 16 bits in 16 bits. But it can store them so.
ErrorModel error_model_of(NumberType type)
{
    const double stored = roundoff_of(type);
    return {std::min(stored, roundoff_of(NumberType::float32)), stored, SumErrors::typical};
}

} // namespace

MyArrays::MyArrays(const Recording& reference, NamedArrays arrays)
    : reference_(reference), names_(reference), kept_(std::move(arrays))
{
    for (const auto& [name, array] : kept_)
        views_.emplace(name, &array);
}

void MyArrays::add(const std::string& name, Array array)
{
    const std::optional<std::size_t> step = names_.find(name);
    const Array* same = step ? &reference_.steps[*step].value : nullptr;
    if (same == nullptr || !same_numbers(array, *same))
        same = &kept_.emplace(name, std::move(array)).first->second;
    views_.emplace(name, same);
    order_.push_back(name);
}

Diff::World::World(const Recording& given, std::shared_ptr<const MyArrays> arrays, const DiffOptions& options,
                   const Hypothesis& hypothesis)
    : run(given),
      mine(std::move(arrays)),
      claims(claims_of(run, mine->views(), mine->order(), options, hypothesis)),
      recording(claims.widened ? *claims.widened : run),
      reference(recording.steps),
      names(recording),
      known(reference.size())
{
}

const Step& Diff::World::original(std::size_t step) const
{
    if (!claims.widened)
        return reference[step];
    const auto found = std::ranges::find(run.steps, reference[step].path, &Step::path);
    return found == run.steps.end() ? reference[step] : *found;
}

const std::vector<std::size_t>& Diff::World::operands(std::size_t step)
{
    constexpr double operations = 4;
    spend(operations);
    std::optional<std::vector<std::size_t>>& found = known[step].operands;
    if (!found)
        found = operands_of(step, reference, names);
    return *found;
}

/// Makes known what a step follows from.
template <class IsKnown, class Compute>
void Diff::World::known_before(std::size_t step, const IsKnown& is_known, const Compute& compute)
{
    operands_first(
        step, [this](std::size_t at) -> const std::vector<std::size_t>& { return operands(at); }, is_known, compute);
}

bool Diff::World::is_clean(std::size_t step)
{
    Known& one = known[step];
    if (one.own != nullptr || one.dumped != nullptr)
        return one.is_same;
    if (one.is_clean)
        return *one.is_clean;
    known_before(
        step, [this](std::size_t i) { return known[i].own || known[i].dumped || known[i].is_clean; },
        [this](std::size_t operand) { is_clean(operand); });
    one.is_clean = formula_of(step) == reference[step].formula &&
                   std::ranges::all_of(operands(step), [&](std::size_t operand) { return is_clean(operand); });
    return *one.is_clean;
}

/// The formula of a step; of weights, where MINE has NaN for queries that can attend to nothing, the one that gives NaN.
const std::string& Diff::World::formula_of(std::size_t step)
{
    std::optional<std::string>& formula = known[step].formula;
    if (formula)
        return *formula;
    formula = reference[step].formula;
    constexpr std::string_view softmax = "softmax(";
    if (has_nan_rows && formula->starts_with(softmax) && has_empty_row(reference[step].value)) {
        const std::string scores = formula->substr(softmax.size(), formula->size() - softmax.size() - 1);
        if (is_step_path(scores))
            *formula += " + where(max(" + scores + ", axis=-1, keepdims=True) == -inf, inf - inf, 0)";
    }
    return *formula;
}

bool Diff::World::is_exact(std::size_t step)
{
    std::optional<bool>& answer = known[step].is_exact;
    if (answer)
        return *answer;
    known_before(
        step, [this](std::size_t i) { return known[i].is_exact.has_value(); },
        [this](std::size_t operand) { is_exact(operand); });
    const Array& value = reference[step].value;
    const double most = std::ldexp(1.0, digits_of(type));
    answer = value.type != ElementType::real ||
             (std::ranges::all_of(value.values,
                                  [&](double number) {
                                      return is_whole(number) && (std::abs(number) <= most || std::isinf(number));
                                  }) &&
              std::ranges::all_of(operands(step), [&](std::size_t operand) { return is_exact(operand); }));
    return *answer;
}

bool Diff::World::has_wrong_operand(std::size_t step)
{
    std::optional<bool>& answer = known[step].has_wrong_operand;
    if (answer)
        return *answer;
    known_before(
        step, [this](std::size_t i) { return known[i].is_claimed || known[i].has_wrong_operand; },
        [this](std::size_t operand) { has_wrong_operand(operand); });
    answer = std::ranges::any_of(operands(step), [&](std::size_t operand) {
        const Known& one = known[operand];
        return one.is_claimed ? one.is_wrong : has_wrong_operand(operand);
    });
    return *answer;
}

std::set<std::size_t> Diff::World::unknown_before(std::size_t step)
{
    std::set<std::size_t> unknown;
    std::vector<std::size_t> open{step};
    while (!open.empty()) {
        const std::size_t next = open.back();
        open.pop_back();
        for (const std::size_t operand : operands(next))
            if (!known[operand].is_claimed && unknown.insert(operand).second)
                open.push_back(operand);
    }
    return unknown;
}

Array Diff::World::moved_by_roundings(const Array& array, std::size_t step)
{
    Array result = array;
    if (array.type != ElementType::real || is_exact(step))
        return result;
    const double roundoff = roundoff_of(type);
    for (std::size_t i = 0; i < result.size(); ++i)
        result.values[i] *= 1 + roundoff * sign_of(draw_, step, i);
    return result;
}

const Array& Diff::World::plain(std::size_t step, bool as_dumped)
{
    Known& one = known[step];
    if (as_dumped && one.dumped != nullptr)
        return *one.dumped;
    if (one.own != nullptr)
        return *one.own;
    if (reference[step].formula.empty() || is_clean(step))
        return reference[step].value;
    compute(step);
    return *one.computed;
}

const Array& Diff::World::moved(std::size_t step, bool as_dumped)
{
    Known& one = known[step];
    if (as_dumped && one.dumped != nullptr) {
        if (!one.dumped_moved)
            one.dumped_moved = moved_by_roundings(*one.dumped, step);
        return *one.dumped_moved;
    }
    if (one.own != nullptr || reference[step].formula.empty()) {
        if (!one.own_moved)
            one.own_moved = moved_by_roundings(one.own != nullptr ? *one.own : reference[step].value, step);
        return *one.own_moved;
    }
    compute(step);
    return *one.computed_moved;
}

Tolerance Diff::World::tolerance_of(const Array& expected) const
{
    if (expected.type != ElementType::real)
        return {};
    return {stored_roundings * roundoff_of(type) * largest_of(expected) + smallest_of(type)};
}

Evaluated Diff::World::evaluate_step(std::size_t step, const std::string& formula, const ArrayOf& array_of,
                                     const Array* judged) const
{
    const Lookup lookup = [&](std::string_view name) {
        const std::optional<std::size_t> operand = names.resolve_any(step, name);
        if (operand)
            return &array_of(*operand);
        return name == "mine" ? judged : name == "given" ? &reference[step].value : nullptr;
    };
    Evaluated result = evaluate(formula, lookup, error_model_of(type));
    if (reference[step].value.type == ElementType::integer)
        result.value.type = ElementType::integer;
    return result;
}

Diff::World::Both Diff::World::evaluate_both(std::size_t step, const std::string& formula, const ArrayOf& plain_of,
                                             const ArrayOf& moved_of, const Array* judged)
{
    Both both;
    const ArrayOf noting = [&](std::size_t operand) -> const Array& {
        const Array& array = plain_of(operand);
        if (is_exact(operand))
            both.has_exact = true;
        else
            both.scale = std::max(both.scale, largest_of(array));
        return array;
    };
    both.plain = evaluate_step(step, formula, noting, judged);
    both.moved = evaluate_step(step, formula, moved_of, judged);
    return both;
}

Array Diff::World::computed_otherwise(std::size_t step, const Both& both)
{
    if (is_exact(step))
        return both.plain.value;
    Array rounded = moved_by_roundings(both.moved.value, step);
    for (std::size_t i = 0; i < rounded.size(); ++i)
        if (std::isfinite(both.moved.error[i])) // of what overflows nothing is known
            rounded.values[i] += sign_of(draw_, step, i + 1) * both.moved.error[i];
    return rounded;
}

Diff::World::Recomputed Diff::World::recomputed(Both both, double least_move) const
{
    Recomputed result{std::move(both.plain.value), {}};
    if (result.value.type != ElementType::real)
        return result;
    const double largest_move = std::max(least_move, largest_move_of(result.value, both.moved.value));
    const double roundoff = roundoff_of(type), largest = largest_of(result.value);
    const double most = std::min(most_growth * roundoff, most_relative) * std::max(largest, both.scale);
    result.tolerance = tolerance_of(result.value);
    result.tolerance.typical = std::max(largest_move, roundoff * largest);
    result.tolerance.common += std::min(noise_factor * largest_move, most);
    if (both.has_exact)
        result.tolerance.common += unmeasured_roundings * roundoff * largest;
    result.tolerance.each = std::move(both.plain.error);
    for (double& error : result.tolerance.each)
        error *= sum_factor;
    return result;
}

/// A step that MINE doesn't have, from what it has; the reference's where that can't be done.
void Diff::World::compute(std::size_t step)
{
    Known& one = known[step];
    if (one.computed_moved)
        return; // by this draw
    if (std::exchange(one.is_under_way, true))
        throw FormulaError(formula_of(step), 0, "the step is computed from itself"); // names can mean later steps
    known_before(
        step,
        [this](std::size_t i) {
            return known[i].own || reference[i].formula.empty() || known[i].computed_moved || known[i].is_under_way;
        },
        [this](std::size_t operand) { compute(operand); });
    const Step& label = reference[step];
    try {
        Both both = evaluate_both(
            step, formula_of(step), [&](std::size_t i) -> const Array& { return plain(i); },
            [&](std::size_t i) -> const Array& { return moved(i); });
        one.computed_moved = computed_otherwise(step, both);
        if (!one.computed)
            one.computed = is_clean(step) ? label.value : std::move(both.plain.value);
    } catch (const FormulaError&) {
        one.computed = label.value;
        one.computed_moved = moved_by_roundings(label.value, step);
    }
    one.is_under_way = false;
}

void Diff::World::redraw(std::size_t draw)
{
    if (draw == draw_)
        return;
    draw_ = draw;
    for (Known& one : known) {
        one.computed_moved.reset();
        one.own_moved.reset();
        one.dumped_moved.reset();
    }
}

Diff::World::Recomputed Diff::World::recompute(std::size_t step, std::size_t draws, bool as_dumped)
{
    const auto evaluated = [&] {
        return evaluate_both(
            step, reference[step].formula, [&](std::size_t i) -> const Array& { return plain(i, as_dumped); },
            [&](std::size_t i) -> const Array& { return moved(i, as_dumped); });
    };
    double largest_move = 0;
    for (std::size_t draw = draws; draw-- > 1;) {
        redraw(draw);
        const Both both = evaluated();
        largest_move = std::max(largest_move, largest_move_of(both.plain.value, both.moved.value));
    }
    redraw(0);
    return recomputed(evaluated(), largest_move);
}

} // namespace attn
