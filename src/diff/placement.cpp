#include "placement.hpp"

#include "softmax.hpp"

#include "attn/core/budget.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <compare>
#include <tuple>

namespace attn::diff {
namespace {

// A step that follows from one that differs by less than this is taken to be the reference's.
constexpr double hardly_different = 1e-4;

} // namespace

Placement::Placement(const Recording& reference, const ArrayViews& mine, const MyGraph& graph,
                     const std::vector<std::string>& names, const Hypothesis& hypothesis)
    : graph_(graph),
      evidence_(graph.evidence(reference, mine)),
      steps_(evidence_.steps()),
      targets_(evidence_.targets()),
      step_names_(evidence_.names()),
      names_(names),
      in_order_(!graph.order().empty()),
      hypothesis_(hypothesis),
      has_gradients_(
          std::ranges::any_of(steps_, [](const Step& step) { return step.path.starts_with(formula::gradient_scope); })),
      known_(reference, step_names_),
      placed_(names.size())
{
    for (const std::string& name : names) {
        arrays_.push_back(mine.find(name)->second);
        meanings_.push_back(has_gradients_ ? gradient_name(name).value_or(name) : name);
    }
    const std::size_t result = steps_.empty() ? 0 : result_of(reference);
    for (const StepSet& target : targets_)
        if (target.steps.size() == 1 && target.first() == result && !has_gradients_)
            result_ = &target;
}

void Placement::know(const std::vector<Claim>& claims)
{
    for (const Claim& claim : claims)
        if (claim.array != nullptr && claim.array->shape == steps_[claim.step].value.shape) {
            know(claim.step, *claim.array);
            const std::string name = claim.mine.substr(0, claim.mine.find('['));
            steps_of_[name].push_back(claim.step);
            if (!(relative_distance(*claim.array, steps_[claim.step].value) <= near_enough(*claim.array))) {
                wrong_claims_.insert(name);
                wrongly_claimed_.insert(claim.step);
            }
        }
}

bool Placement::is_tensor(std::size_t i) const
{
    const Array& array = *arrays_[i];
    return array.type == ElementType::real && array.size() > 1 && !hypothesis_.no_step.contains(names_[i]) &&
           (says_gradient(i) || !are_counts(array));
}

bool Placement::is_zero(std::size_t i) const
{
    return std::ranges::all_of(arrays_[i]->values, [](double number) { return number == 0; });
}

bool Placement::is_the_result(std::size_t i) const
{
    return names_.size() == 1 && result_ != nullptr && !is_taken(*result_) && result_->size == arrays_[i]->size();
}

bool Placement::fits(std::size_t i, const StepSet& target) const
{
    if (reserved_ != nullptr && (&target == result_) != (reserved_->values == arrays_[i]->values))
        return false;
    return target.size == arrays_[i]->size() && !contradicts(meanings_[i], target.text) &&
           (!says_gradient(i) || target.text.starts_with(formula::gradient_scope)) && !is_overwritten_sum(target);
}

bool Placement::can_be_masked(std::size_t i, const StepSet& target) const
{
    const auto has_mask = [&](const StepSet& other) { return other.is_masked && other.size == target.size; };
    return !is_masked(*arrays_[i]) || target.is_masked || std::ranges::none_of(targets_, has_mask);
}

bool Placement::is_overwritten_sum(const StepSet& target) const
{
    const auto step =
        is_contribution(target) ? step_names_.find(target.text.substr(0, target.text.find(".from."))) : std::nullopt;
    return step && !innocent_.contains(*step);
}

std::optional<Meaning> Placement::placed_at(const StepSet& target, std::size_t i)
{
    const auto value = stacked(target, [&](std::size_t step) { return &known_.value(step); });
    const auto fit = best_fit(*arrays_[i], target, *value, axes_before(i));
    return fit ? std::optional(Meaning{&target, *fit}) : std::nullopt;
}

/// The axes of the placed arrays that one was computed from, in their order there.
std::vector<std::vector<std::string>> Placement::axes_before(std::size_t i) const
{
    std::vector<std::vector<std::string>> axes;
    const auto before = graph_.all_before(names_[i], [this](const std::string& name) { return is_a_step(name); });
    for (std::size_t k = 0; k < i && graph_.knows_reads(); ++k) {
        const auto is_read = [&](const std::string& name) {
            return std::ranges::find(graph_.reads(name), names_[k]) != graph_.reads(name).end();
        };
        if (!is_placed(k) || std::ranges::none_of(before, is_read))
            continue;
        axes.emplace_back();
        for (const std::size_t axis : placed_[k].fit.order)
            axes.back().push_back(placed_[k].target->letters[axis]);
    }
    return axes;
}

template <class FitTo>
std::optional<Meaning> Placement::nearest(std::size_t i, double near, const FitTo& fit_to)
{
    std::optional<Meaning> best;
    constexpr double operations = 10; // names are looked at only where sizes are the same
    spend(operations * static_cast<double>(targets_.size()));
    for (const StepSet& target : targets_) {
        if (!fits(i, target))
            continue;
        const std::optional<Fit> fit = fit_to(target);
        if (fit && fit->distance <= near && (!best || is_better({&target, *fit}, *best, i)))
            best = Meaning{&target, *fit};
    }
    return best;
}

template <class ValueOf>
std::optional<Meaning> Placement::nearest_of(std::size_t i, const Array& numbers, std::size_t telling,
                                             const ValueOf& value_of)
{
    const double near = near_of(i, telling), length = length_of(numbers);
    return nearest(i, near, [&](const StepSet& target) -> std::optional<Fit> {
        const auto value = stacked(target, value_of);
        const bool can_be = value && can_be_as_near(near, length, length_of(*value));
        return can_be ? best_fit(numbers, target, *value) : std::nullopt;
    });
}

/// So few numbers have to be so near to a step's that hardly any other step's are by chance.
double Placement::near_of(std::size_t i, std::size_t telling) const
{
    constexpr double unlikely = 1e-3;
    return std::min(near_enough(*arrays_[i]),
                    std::pow(unlikely / static_cast<double>(targets_.size()), 1 / static_cast<double>(telling)));
}

std::optional<Meaning> Placement::nearest_right(std::size_t i)
{
    const Array& array = *arrays_[i];
    const double near = near_of(i, array.size());
    return nearest(i, near, [&](const StepSet& target) { return evidence_.fit(array, target, near); });
}

std::optional<Meaning> Placement::nearest_following(std::size_t i)
{
    const auto value_of = [this](std::size_t step) { return known_.differs(step) ? &known_.value(step) : nullptr; };
    return nearest_of(i, *arrays_[i], arrays_[i]->size(), value_of);
}

std::optional<Meaning> Placement::nearest_mistaken(std::size_t i)
{
    if (hypothesis_.mistaken.empty())
        return std::nullopt;
    return nearest_of(i, *arrays_[i], arrays_[i]->size(), [this](std::size_t step) -> const Array* {
        const auto found = hypothesis_.mistaken.find(steps_[step].path);
        return found == hypothesis_.mistaken.end() ? nullptr : &found->second;
    });
}

std::optional<Meaning> Placement::nearest_shifted(std::size_t i)
{
    if (!scores_)
        scores_ = all_scores();
    const Array& array = *arrays_[i];
    const std::size_t rows = array.size() / row_length(array); // it has numbers
    const auto is_finite = [](double number) { return std::isfinite(number); };
    const auto finite = static_cast<std::size_t>(std::ranges::count_if(array.values, is_finite));
    if (scores_->empty() || finite <= rows)
        return std::nullopt; // of each row's largest nothing is left
    return nearest_of(i, shifted(array), finite - rows, [this](std::size_t step) -> const Array* {
        const auto scores = scores_->find(step);
        return scores != scores_->end() ? &scores->second : nullptr;
    });
}

std::map<std::size_t, Array> Placement::all_scores()
{
    std::map<std::size_t, Array> scores;
    for (std::size_t step = 0; step < steps_.size(); ++step)
        if (is_softmax(steps_[step]))
            for (const std::size_t operand : known_.operands(step))
                scores.emplace(operand, shifted(steps_[operand].value));
    return scores;
}

std::set<std::size_t> Placement::steps_before(std::size_t i) const
{
    std::set<std::size_t> steps;
    const auto note = [&](const std::string& name) {
        const auto found = steps_of_.find(name);
        if (found != steps_of_.end())
            steps.insert(found->second.begin(), found->second.end());
        return found != steps_of_.end() || evidence_.is_mask(name); // which has no more of an array than its shape
    };
    graph_.all_before(names_[i], note);
    return steps;
}

Placement::ReadDistance Placement::distance_by_reads(std::size_t i, const StepSet& target)
{
    if (!graph_.knows_reads())
        return {};
    const std::set<std::size_t> read = steps_before(i);
    if (std::ranges::all_of(target.steps, [&](std::size_t step) { return read.contains(step); }))
        return {}; // the same once more
    const std::set<std::size_t>& sources = known_before(target);
    ReadDistance distance;
    for (const std::size_t step : read)
        distance.foreign += sources.contains(step) ? 0 : 1;
    for (const std::size_t step : known_.all_before(target.steps, [&](std::size_t at) { return read.contains(at); }))
        distance.between += steps_[step].formula.empty() ? 0 : 1;
    return distance;
}

bool Placement::has_missing_source(std::size_t i, const StepSet& target)
{
    const std::set<std::size_t> read = steps_before(i);
    const auto is_read = [&](std::size_t step) { return read.contains(step); };
    return std::ranges::any_of(known_.all_before(target.steps, is_read), [&](std::size_t step) {
        const std::set<std::size_t> sources = known_.all_before({step}, [](std::size_t) { return false; });
        return !known_.operands(step).empty() && std::ranges::none_of(sources, is_read);
    });
}

const std::set<std::size_t>& Placement::known_before(const StepSet& target)
{
    std::set<std::size_t>& sources = sources_[&target];
    if (sources.empty()) {
        sources = known_.all_before(target.steps, [](std::size_t) { return false; });
        sources.insert(target.steps.begin(), target.steps.end());
    }
    return sources;
}

std::size_t Placement::unknown_before(const StepSet& target)
{
    const auto steps =
        known_.all_before(target.steps, [this](std::size_t step) { return known_.own(step) != nullptr; });
    return static_cast<std::size_t>(
        std::ranges::count_if(steps, [this](std::size_t step) { return !steps_[step].formula.empty(); }));
}

bool Placement::is_inside_a_step(const Array& array)
{
    const auto is_it = [&, near = right_enough(array)](const Array& inner) {
        return inner.size() == array.size() && relative_distance(array, inner) <= near;
    };
    if (evidence_.has_inner_result(is_it))
        return true;
    const auto value_of = [this](std::size_t i) -> const Array& { return known_.value(i); };
    for (std::size_t step = 0; step < steps_.size(); ++step) {
        const auto has_its_size = [&](const Array& inner) { return inner.size() == array.size(); };
        if (!known_.differs(step) || std::ranges::none_of(evidence_.inner_results(step), has_its_size))
            continue;
        if (!following_inner_results_.contains(step))
            following_inner_results_.emplace(step, evidence_.inner_results_from(step, value_of));
        if (std::ranges::any_of(following_inner_results_.at(step), is_it))
            return true;
    }
    return false;
}

bool Placement::is_better(const Meaning& one, const Meaning& other, std::size_t i)
{
    if (one.target->is_masked != other.target->is_masked)
        return !one.target->is_masked;
    constexpr double as_near = 1.5, rounding = 1e-15;
    if (one.fit.distance > as_near * other.fit.distance + rounding)
        return false;
    if (other.fit.distance > as_near * one.fit.distance + rounding)
        return true;
    const auto is_split = [&](const Meaning& placed) { // an axis of the target is two of the array's
        const auto axes = [](const Shape& shape) {
            return std::ranges::count_if(shape, [](auto size) { return size > 1; });
        };
        return axes(arrays_[i]->shape) > axes(placed.target->shape);
    };
    if (is_split(one) != is_split(other))
        return is_split(other);
    // Of one token, the context is the value: two arrays have the same numbers there.
    const bool are_distinct = std::abs(one.fit.distance - other.fit.distance) > rounding;
    const auto merits = [&](const StepSet& target) {
        return std::pair(are_distinct && is_copied(target, i), !is_taken(target));
    };
    const std::size_t mine = distance_by_reads(i, *one.target).all(),
                      others = distance_by_reads(i, *other.target).all();
    return mine != others ? mine < others : merits(*one.target) > merits(*other.target);
}

bool Placement::is_copied(const StepSet& target, std::size_t i) const
{
    const auto sorted = [](std::vector<double> values) {
        const auto is_before = [](double a, double b) { return std::strong_order(a, b) < 0; }; // NaN, too
        std::ranges::sort(values, is_before);
        return values;
    };
    const auto own = stacked(target, [&](std::size_t step) { return known_.own(step); });
    return own && sorted(own->values) == sorted(arrays_[i]->values);
}

bool Placement::is_taken(const StepSet& target) const
{
    return std::ranges::any_of(target.steps, [&](std::size_t step) { return known_.own(step) != nullptr; });
}

std::vector<std::size_t> Placement::right() const
{
    std::vector<std::size_t> found;
    for (std::size_t step = 0; step < steps_.size(); ++step)
        if (const Array* own = known_.own(step);
            own != nullptr && relative_distance(*own, steps_[step].value) <= right_enough(*own))
            found.push_back(step);
    return found;
}

std::set<std::size_t> Placement::innocent()
{
    return known_.all_before(right(), [](std::size_t) { return false; });
}

void Placement::know(std::size_t step, const Array& own)
{
    const bool differs = relative_distance(own, steps_[step].value) > hardly_different;
    if (differs && known_.own(step) == nullptr && known_.differs(step) &&
        relative_distance(own, known_.value(step)) <= hardly_different)
        return known_.confirm(step, own);
    known_.set(step, &own, differs);
    following_inner_results_.erase(following_inner_results_.lower_bound(step), following_inner_results_.end());
}

void Placement::unknow(std::size_t step)
{
    known_.unset(step);
    following_inner_results_.erase(following_inner_results_.lower_bound(step), following_inner_results_.end());
}

void Placement::place(std::size_t i, const std::optional<Meaning>& placed, std::string_view how, bool replaces)
{
    if (placed)
        place(i, *placed, how, parts_of(i, *placed, replaces), replaces);
}

void Placement::place_shifted(std::size_t i, const Meaning& placed)
{
    std::vector<Match::Part> parts = parts_of(i, placed);
    for (Match::Part& part : parts)
        part.array = shifted(std::move(part.array), &steps_[part.step].value);
    place(i, placed, "by its numbers, but for a shift of each row", std::move(parts));
}

void Placement::place(std::size_t i, const Meaning& placed, std::string_view how, std::vector<Match::Part> parts,
                      bool replaces)
{
    ++changes_;
    std::vector<const Array*>& replaced = replaced_[i];
    replaced.clear();
    placed_[i] = placed;
    Match match{std::move(parts), {names_[i], placed.target->text, std::string(how), ""}, replaces};
    if (match.parts.front().array.shape != arrays_[i]->shape || !std::ranges::is_sorted(placed.fit.order))
        match.found.layout = layout_text(*placed.target, placed.fit, arrays_[i]->shape);
    matches_.push_back(std::move(match));
    std::vector<std::size_t>& steps = steps_of_[names_[i]];
    steps.clear();
    for (const Match::Part& part : matches_.back().parts) { // these stay where they are
        steps.push_back(part.step);
        replaced.push_back(known_.own(part.step));
        if (!replaces && wrongly_claimed_.contains(part.step))
            wrong_claims_.insert(names_[i]); // the same once more
        if (known_.own(part.step) == nullptr || replaces)
            know(part.step, part.array);
    }
}

std::vector<Match::Part> Placement::parts_of(std::size_t i, const Meaning& placed, bool with_copies) const
{
    std::vector<Match::Part> parts;
    const Array whole = in_target_layout(*arrays_[i], placed.fit);
    const StepSet& target = *placed.target;
    const std::size_t size = target.size / target.steps.size();
    for (std::size_t part = 0; part < target.steps.size(); ++part) {
        const auto begin = whole.values.begin() + static_cast<std::ptrdiff_t>(part * size);
        parts.push_back({target.steps[part],
                         target.steps.size() == 1 ? "" : fmt::format("[part {}]", part),
                         {steps_[target.steps[part]].value.shape,
                          {begin, begin + static_cast<std::ptrdiff_t>(size)},
                          ElementType::real}});
        if (with_copies && !target.copies.empty())
            for (const std::size_t copy : target.copies[part])
                parts.push_back({copy, parts.back().suffix, parts.back().array});
    }
    return parts;
}

void Placement::place_misshapen(std::size_t i, std::size_t step)
{
    matches_.push_back({{{step, "", *arrays_[i]}}, {names_[i], steps_[step].path, "by its name", ""}});
}

void Placement::unplace(std::size_t i)
{
    ++changes_;
    const std::vector<std::size_t>& steps = steps_of_[names_[i]];
    for (std::size_t at = 0; at < steps.size(); ++at)
        if (replaced_[i][at] == nullptr)
            unknow(steps[at]);
        else
            know(steps[at], *replaced_[i][at]);
    placed_[i] = {};
    steps_of_.erase(names_[i]);
    const auto is_its = [&](const Match& match) { return match.found.mine == names_[i]; };
    matches_.erase(std::find_if(matches_.rbegin(), matches_.rend(), is_its).base() - 1);
}

void Placement::turn(std::size_t i)
{
    swap_maps_axes(placed_[i].fit);
    const auto match = std::ranges::find(matches_, names_[i], [](const Match& one) { return one.found.mine; });
    match->parts = parts_of(i, placed_[i]);
    match->found.layout = layout_text(*placed_[i].target, placed_[i].fit, arrays_[i]->shape);
}

void Placement::look_for_contributions()
{
    innocent_ = innocent();
    for (const std::size_t step : right())
        innocent_.insert(step);
}

bool is_contribution(const StepSet& target) { return target.text.find(".from.") != std::string::npos; }

} // namespace attn::diff
