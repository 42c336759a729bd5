// What MINE computed, as far as it follows from its arrays.

#include "world.hpp"

#include "compare.hpp"
#include "name_rules.hpp"
#include "softmax.hpp"

#include "attn/core/error.hpp"
#include "attn/formula/expression.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

namespace attn::diff {
namespace {

// What the measured change by other roundings is multiplied with: a draw is not the worst case.
constexpr double noise_factor = 3;
// The evaluator's bound is of first order, and both computations err.
constexpr double sum_factor = 6;
// The bound where each operation's result is stored: MINE alone errs so, and no sum is behind it.
constexpr double stored_factor = 1.25;
// Roundings of a result beside the largest number of its array.
constexpr double stored_roundings = 2;
// Roundings inside a formula that an operand shows which is moved, and an exact one doesn't.
constexpr double unmeasured_roundings = 2;
// No formula makes more of a rounding than this: what does is no noise.
constexpr double most_growth = 0x1p16;

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

} // namespace

MyArrays::MyArrays(const Recording& reference, files::NamedArrays arrays)
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

namespace {

/// A rule that was given is about some array: a name that is misspelt would leave its array uncompared.
void expect_array(const ReadRule& rule, const ArrayViews& mine)
{
    std::vector<std::string_view> names;
    for (const auto& [name, array] : mine) {
        if (match(rule, split(name, '.')))
            return;
        names.push_back(name);
    }
    const std::string name = joined(rule.name, '.');
    throw Error(fmt::format("{} = {}: MINE has no array {}{}", rule.theirs, joined(rule.steps, '|'), name,
                            suggestion(names, name)));
}

/// A step for the last token of the result; nothing where the result is no sequence.
std::optional<Step> last_token_of(const Recording& reference)
{
    if (reference.steps.empty())
        return std::nullopt;
    const Step& result = reference.steps[result_of(reference)];
    const std::size_t rank = result.value.rank(), tokens = rank < 2 ? 0 : result.value.shape[rank - 2];
    if (tokens < 2 || result.path.starts_with(formula::gradient_scope))
        return std::nullopt;
    return Step{.path = std::string(last_token_path),
                .formula = fmt::format("{}[..., {}:{}, :]", result.path, tokens - 1, tokens),
                .axes = result.axes,
                .module = result.module,
                .options = {},
                .value = range_of(result.value, rank - 2, tokens - 1, tokens)};
}

} // namespace

std::string_view MyArrays::name_of(std::string_view part) const
{
    const std::string_view whole = part.substr(0, part.find('['));
    return whole.ends_with(".T") && !views_.contains(whole) ? whole.substr(0, whole.size() - 2) : whole;
}

void MyArrays::describe(Listing listing, const std::vector<NameRule>& names)
{
    listing_ = std::move(listing);
    graph_ = MyGraph(order_, listing_.origins);
    for (const NameRule& rule : names)
        expect_array(read_rule(rule, nullptr), views_);
    const auto last = last_token_of(reference_);
    const auto has_size = [&](std::size_t size) {
        return std::ranges::any_of(views_, [&](const auto& view) { return view.second->size() == size; });
    };
    if (!last || !has_size(last->value.size()))
        return;
    const bool ends_so =
        graph_.knows_reads() && !order_.empty() && views_.find(order_.back())->second->size() == last->value.size();
    const Step& result = reference_.steps[result_of(reference_)];
    const bool is_named = std::ranges::any_of(names, [&](const NameRule& rule) {
        const auto view = views_.find(rule.theirs);
        return view != views_.end() && view->second->size() == result.value.size() &&
               (rule.step == "output" || rule.step == result.path);
    });
    const bool returns_all = std::ranges::any_of(listing_.results, [&](const std::string& name) {
        const auto view = views_.find(name);
        return view != views_.end() && view->second->size() == result.value.size();
    });
    if (is_named || returns_all || (!ends_so && has_size(result.value.size())))
        return;
    changed_ = reference_;
    changed_->steps.push_back(*last);
}

std::size_t result_of(const Recording& reference)
{
    const formula::StepNames names(reference);
    const auto last = names.find(last_token_path);
    return last ? *last : names.find("output").value_or(reference.steps.size() - 1);
}

Diff::World::World(std::shared_ptr<const MyArrays> arrays, Claims meanings)
    : mine(std::move(arrays)),
      run(mine->reference()),
      claims(std::move(meanings)),
      recording(claims.widened ? *claims.widened : run),
      reference(recording.steps),
      names(recording),
      steps(recording, names),
      known(reference.size()),
      is_cut(claims.is_cut)
{
    for (const std::string& path : mine->even_rows()) {
        const std::size_t step = names.find(path).value();
        const std::string& formula = reference[step].formula;
        steps.set_formula(step, with_empty_rows(formula, *scores_of_softmax(formula), EmptyRows::even));
    }
}

const Step& Diff::World::original(std::size_t step) const
{
    if (!claims.widened)
        return reference[step];
    const auto found = std::ranges::find(run.steps, reference[step].path, &Step::path);
    return found == run.steps.end() ? reference[step] : *found;
}

std::string with_empty_rows(const std::string& formula, std::string_view scores, EmptyRows rows)
{
    return fmt::format("{} + where(max({}, axis=-1, keepdims=True) == -inf, {}, 0)", formula, scores,
                       rows == EmptyRows::nan ? "inf - inf" : fmt::format("1 / {}.shape[-1]", scores));
}

std::shared_ptr<const MyArrays> MyArrays::beside_even_rows(const std::shared_ptr<const MyArrays>& mine)
{
    auto result = std::make_shared<MyArrays>(*mine);
    result->of_views_ = mine;
    Recording& even = result->changed_.emplace(mine->reference());
    const formula::StepNames names(even);
    KnownSteps steps(mine->reference(), names);
    for (std::size_t i = 0; i < even.steps.size(); ++i)
        if (const auto scores = scores_of_softmax(even.steps[i].formula);
            scores && has_empty_row(even.steps[i].value)) {
            steps.set_formula(i, with_empty_rows(even.steps[i].formula, *scores, EmptyRows::even));
            result->even_rows_.insert(even.steps[i].path);
        }
    for (std::size_t i = 0; i < even.steps.size(); ++i)
        even.steps[i].value = steps.value(i);
    return result;
}

void Diff::World::expect_nan_rows()
{
    for (std::size_t i = 0; i < reference.size(); ++i) {
        const std::string& formula = reference[i].formula;
        if (const auto scores = scores_of_softmax(formula); scores && has_empty_row(reference[i].value))
            steps.set_formula(i, with_empty_rows(formula, *scores, EmptyRows::nan));
    }
}

bool Diff::World::is_exact(std::size_t step)
{
    std::optional<bool>& answer = known[step].is_exact;
    if (answer)
        return *answer;
    steps.before(
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
    steps.before(
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
    return steps.all_before({step}, [this](std::size_t operand) { return known[operand].is_claimed; });
}

Array Diff::World::moved_by_roundings(const Array& array, std::size_t step)
{
    Array result = array;
    if (array.type != ElementType::real || is_exact(step))
        return result;
    const double roundoff = roundoff_of(type);
    for (std::size_t i = 0; i < result.size(); ++i)
        result.values[i] *= 1 + roundoff * formula::rounding_sign(draw_, step, i);
    return result;
}

const Array& Diff::World::plain(std::size_t step, bool as_dumped)
{
    return as_dumped && known[step].dumped != nullptr ? *known[step].dumped : steps.value(step);
}

const Array& Diff::World::moved(std::size_t step, bool as_dumped)
{
    Known& one = known[step];
    if (as_dumped && one.dumped != nullptr) {
        if (!one.dumped_moved)
            one.dumped_moved = moved_by_roundings(*one.dumped, step);
        return *one.dumped_moved;
    }
    if (!one.moved) {
        steps.before(
            step,
            [this](std::size_t i) { return known[i].moved || steps.own(i) != nullptr || reference[i].formula.empty(); },
            [this](std::size_t operand) { moved(operand); });
        one.moved = moved_again(step);
    }
    return *one.moved;
}

/// With other roundings: what is given, each number for itself; what follows, as it follows from what was moved.
Array Diff::World::moved_again(std::size_t step)
{
    if (steps.own(step) != nullptr || reference[step].formula.empty() || is_exact(step))
        return moved_by_roundings(steps.value(step), step);
    const std::string& formula = steps.formula(step);
    const ArrayOf moved_of = [&](std::size_t i) -> const Array& {
        if (i > step)
            throw formula::FormulaError(formula, 0, "a later step is used");
        return moved(i);
    };
    try {
        return computed_otherwise(step, evaluate_step(step, formula, moved_of));
    } catch (const formula::FormulaError&) {
        return moved_by_roundings(steps.value(step), step);
    }
}

Tolerance Diff::World::tolerance_of(const Array& expected) const
{
    if (expected.type != ElementType::real)
        return {};
    return {stored_roundings * roundoff_of(type) * largest_of(expected) + smallest_of(type)};
}

/// Sums are added in float32 or better: no machine adds many numbers of 16 bits in 16 bits. But it can store them so.
formula::ErrorModel Diff::World::error_model() const
{
    const double stored = roundoff_of(type);
    return {std::min(stored, roundoff_of(NumberType::float32)), stored, formula::SumErrors::typical, draw_ > 0};
}

formula::Evaluated Diff::World::evaluate_step(std::size_t step, const std::string& formula, const ArrayOf& array_of,
                                              const Array* judged, bool with_errors) const
{
    const formula::Lookup lookup = [&](std::string_view name) {
        const std::optional<std::size_t> operand = names.resolve_any(step, name);
        if (operand)
            return &array_of(*operand);
        return name == "mine" ? judged : name == "given" ? &reference[step].value : nullptr;
    };
    formula::ErrorModel errors = error_model();
    if (!with_errors)
        errors.sums = formula::SumErrors::none;
    formula::Evaluated result = formula::evaluate(formula, lookup, errors);
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
    both.moved = evaluate_step(step, formula, moved_of, judged, false).value;
    return both;
}

Array Diff::World::computed_otherwise(std::size_t step, const formula::Evaluated& moved)
{
    Array rounded = moved_by_roundings(moved.value, step);
    for (std::size_t i = 0; i < rounded.size(); ++i)
        if (std::isfinite(moved.error[i])) // of what overflows nothing is known
            rounded.values[i] += formula::rounding_sign(draw_, step, i + 1) * moved.error[i];
    return rounded;
}

Diff::World::Recomputed Diff::World::recomputed(Both both, const Otherwise& otherwise) const
{
    Recomputed result{std::move(both.plain.value), {}};
    if (result.value.type != ElementType::real)
        return result;
    const double largest_move = std::max(otherwise.largest_move, largest_move_of(result.value, both.moved));
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
    for (std::size_t i = 0; i < otherwise.error.size(); ++i)
        result.tolerance.each[i] =
            std::max(result.tolerance.each[i], stored_factor * otherwise.error[i] - result.tolerance.common);
    return result;
}

void Diff::World::redraw(std::size_t draw)
{
    if (draw == draw_)
        return;
    draw_ = draw;
    forget_moved();
}

void Diff::World::compute_as(NumberType other)
{
    type = other;
    forget_moved();
    for (Known& one : known)
        one.is_exact.reset();
}

void Diff::World::forget_moved()
{
    for (Known& one : known) {
        one.moved.reset();
        one.dumped_moved.reset();
    }
}

Diff::World::Recomputed Diff::World::recompute_plainly(std::size_t step)
{
    const ArrayOf plain_of = [this](std::size_t i) -> const Array& { return plain(i); };
    Array value = evaluate_step(step, reference[step].formula, plain_of, nullptr, false).value;
    Tolerance tolerance = tolerance_of(value);
    return {std::move(value), std::move(tolerance)};
}

Diff::World::Recomputed Diff::World::recompute(std::size_t step, std::size_t draws, bool as_dumped)
{
    constexpr std::size_t many = 1024; // numbers, each of which is a draw: together they are not unlucky
    draws = std::clamp<std::size_t>(many / std::max<std::size_t>(reference[step].value.size(), 1), 1, draws);
    const auto evaluated = [&] {
        return evaluate_both(
            step, reference[step].formula, [&](std::size_t i) -> const Array& { return plain(i, as_dumped); },
            [&](std::size_t i) -> const Array& { return moved(i, as_dumped); });
    };
    Otherwise otherwise;
    for (std::size_t draw = draws; draw-- > 1;) {
        redraw(draw);
        Both both = evaluated();
        otherwise.largest_move = std::max(otherwise.largest_move, largest_move_of(both.plain.value, both.moved));
        otherwise.error = std::move(both.plain.error);
    }
    redraw(0);
    return recomputed(evaluated(), otherwise);
}

/// The right weights of MINE that a step is computed from, maybe by steps that MINE doesn't have, with rows divided by their
/// sums.
std::map<std::size_t, Array> Diff::World::normalised_weights(std::size_t step)
{
    std::set<std::size_t> users = steps.all_before({step}, [this](std::size_t i) { return steps.own(i) != nullptr; });
    users.insert(step);
    std::map<std::size_t, Array> weights;
    for (const std::size_t user : users)
        for (const std::size_t operand : operands(user))
            if (steps.own(operand) != nullptr && !known[operand].is_wrong &&
                scores_of_softmax(reference[operand].formula))
                weights.emplace(operand, with_normalised_rows(*steps.own(operand)));
    return weights;
}

std::optional<Diff::World::Recomputed> Diff::World::recompute_from_normalised(std::size_t step, std::size_t draws)
{
    const std::map<std::size_t, Array> weights = normalised_weights(step);
    if (weights.empty())
        return std::nullopt;

    std::map<std::size_t, std::pair<const Array*, bool>> saved;
    for (const auto& [operand, normalised] : weights) {
        saved.emplace(operand, std::pair(steps.own(operand), steps.differs(operand)));
        steps.set(operand, &normalised, true);
    }
    forget_moved();
    const auto restore = [&] {
        for (const auto& [operand, own] : saved)
            steps.set(operand, own.first, own.second);
        forget_moved();
    };
    try {
        Recomputed result = recompute(step, draws);
        restore();
        return result;
    } catch (...) {
        restore();
        throw;
    }
}

} // namespace attn::diff
