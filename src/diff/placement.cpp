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

Placement::Placement(const Recording& reference, const ArrayViews& mine, const std::vector<std::string>& names,
                     bool in_order, const Hypothesis& hypothesis)
    : steps_(reference.steps),
      targets_(targets_of(reference.steps)),
      step_names_(reference),
      names_(names),
      in_order_(in_order),
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
    const std::optional<std::size_t> output = step_names_.find("output");
    for (const Target& target : targets_)
        if (target.steps.size() == 1 && (!output || target.first() == *output) && !has_gradients_)
            result_ = &target; // what is called so; else the last step
}

void Placement::know(const std::vector<Claim>& claims)
{
    for (const Claim& claim : claims)
        if (claim.array != nullptr && claim.array->shape == steps_[claim.step].value.shape)
            know(claim.step, *claim.array);
}

bool Placement::is_tensor(std::size_t i) const
{
    const Array& array = *arrays_[i];
    const auto is_count = [](double number) { return !std::isnan(number) && is_whole(number); };
    return array.type == ElementType::real && array.size() > 1 && !hypothesis_.no_step.contains(names_[i]) &&
           (says_gradient(i) || !std::ranges::all_of(array.values, is_count));
}

bool Placement::is_the_result(std::size_t i) const
{
    return names_.size() == 1 && result_ != nullptr && !is_taken(*result_) && result_->size == arrays_[i]->size();
}

bool Placement::fits(std::size_t i, const Target& target) const
{
    return target.size == arrays_[i]->size() && !contradicts(meanings_[i], target.text) &&
           (!says_gradient(i) || target.text.starts_with(formula::gradient_scope)) && !is_overwritten_sum(target);
}

bool Placement::is_overwritten_sum(const Target& target) const
{
    const auto step =
        is_contribution(target) ? step_names_.find(target.text.substr(0, target.text.find(".from."))) : std::nullopt;
    return step && !innocent_.contains(*step);
}

std::optional<Placed> Placement::placed_at(const Target& target, std::size_t i)
{
    const auto value = stacked(target, [&](std::size_t step) { return &known_.value(step); });
    const auto fit = best_fit(*arrays_[i], target, *value);
    return fit ? std::optional(Placed{&target, *fit}) : std::nullopt;
}

template <class ValueOf>
std::optional<Placed> Placement::nearest(std::size_t i, const ValueOf& value_of)
{
    return nearest(i, *arrays_[i], arrays_[i]->size(), value_of);
}

template <class ValueOf>
std::optional<Placed> Placement::nearest(std::size_t i, const Array& numbers, std::size_t telling,
                                         const ValueOf& value_of)
{
    std::optional<Placed> best;
    const double near = std::min(near_enough(*arrays_[i]), near_by_chance(telling));
    constexpr double operations = 10; // names are looked at only where sizes are the same
    spend(operations * static_cast<double>(targets_.size()));
    for (const Target& target : targets_) {
        if (!fits(i, target))
            continue;
        const auto value = stacked(target, value_of);
        if (!value || !can_be_as_near(near, numbers, *value))
            continue;
        const auto fit = best_fit(numbers, target, *value);
        if (fit && fit->distance <= near && (!best || is_better({&target, *fit}, *best, i)))
            best = Placed{&target, *fit};
    }
    return best;
}

double Placement::near_by_chance(std::size_t numbers) const
{
    constexpr double unlikely = 1e-3;
    return std::pow(unlikely / static_cast<double>(targets_.size()), 1 / static_cast<double>(numbers));
}

std::optional<Placed> Placement::nearest_right(std::size_t i)
{
    return nearest(i, [&](std::size_t step) { return &steps_[step].value; });
}

std::optional<Placed> Placement::nearest_following(std::size_t i)
{
    return nearest(i, [&](std::size_t step) { return known_.differs(step) ? &known_.value(step) : nullptr; });
}

std::optional<Placed> Placement::nearest_mistaken(std::size_t i)
{
    return nearest(i, [&](std::size_t step) -> const Array* {
        const auto found = hypothesis_.mistaken.find(steps_[step].path);
        return found == hypothesis_.mistaken.end() ? nullptr : &found->second;
    });
}

std::optional<Placed> Placement::nearest_shifted(std::size_t i)
{
    if (!scores_)
        scores_ = all_scores();
    const Array& array = *arrays_[i];
    const std::size_t rows = array.size() / row_length(array); // it has numbers
    const auto is_finite = [](double number) { return std::isfinite(number); };
    const auto finite = static_cast<std::size_t>(std::ranges::count_if(array.values, is_finite));
    if (scores_->empty() || finite <= rows)
        return std::nullopt; // of each row's largest nothing is left
    return nearest(i, shifted(array), finite - rows, [&, masked = is_masked(array)](std::size_t step) {
        const auto scores = scores_->find(step);
        return scores != scores_->end() && is_masked(scores->second) == masked ? &scores->second : nullptr;
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

bool Placement::is_better(const Placed& one, const Placed& other, std::size_t i) const
{
    if (one.target->is_masked != other.target->is_masked)
        return !one.target->is_masked;
    constexpr double as_near = 1.5, rounding = 1e-15;
    if (one.fit.distance > as_near * other.fit.distance + rounding)
        return false;
    if (other.fit.distance > as_near * one.fit.distance + rounding)
        return true;
    // Of one token, the context is the value: two arrays have the same numbers there.
    const bool are_distinct = std::abs(one.fit.distance - other.fit.distance) > rounding;
    const auto merits = [&](const Target& target) {
        return std::tuple(!is_of_other_layer(names_[i], target.text), are_distinct && is_copied(target, i),
                          !is_taken(target), !is_contribution(target), words_in_common(meanings_[i], target.text),
                          !steps_[target.first()].formula.empty());
    };
    return merits(*one.target) > merits(*other.target);
}

bool Placement::is_copied(const Target& target, std::size_t i) const
{
    const auto sorted = [](std::vector<double> values) {
        const auto is_before = [](double a, double b) { return std::strong_order(a, b) < 0; }; // NaN, too
        std::ranges::sort(values, is_before);
        return values;
    };
    const auto own = stacked(target, [&](std::size_t step) { return known_.own(step); });
    return own && sorted(own->values) == sorted(arrays_[i]->values);
}

bool Placement::is_taken(const Target& target) const
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
    known_.set(step, &own, relative_distance(own, steps_[step].value) > hardly_different);
}

void Placement::place(std::size_t i, const std::optional<Placed>& placed, std::string_view how)
{
    if (placed)
        place(i, *placed, how, parts_of(i, *placed));
}

void Placement::place_shifted(std::size_t i, const Placed& placed)
{
    std::vector<Match::Part> parts = parts_of(i, placed);
    for (Match::Part& part : parts)
        part.array = shifted(std::move(part.array), &steps_[part.step].value);
    place(i, placed, "by its numbers, but for a shift of each row", std::move(parts));
}

void Placement::place(std::size_t i, const Placed& placed, std::string_view how, std::vector<Match::Part> parts)
{
    placed_[i] = placed;
    Match match{std::move(parts), {names_[i], placed.target->text, std::string(how), ""}};
    if (match.parts.front().array.shape != arrays_[i]->shape || !std::ranges::is_sorted(placed.fit.order))
        match.found.layout = layout_text(*placed.target, placed.fit, arrays_[i]->shape);
    matches_.push_back(std::move(match));
    for (const Match::Part& part : matches_.back().parts) // these stay where they are
        if (known_.own(part.step) == nullptr)
            know(part.step, part.array);
}

std::vector<Match::Part> Placement::parts_of(std::size_t i, const Placed& placed) const
{
    std::vector<Match::Part> parts;
    const Array whole = in_target_layout(*arrays_[i], placed.fit);
    const Target& target = *placed.target;
    const std::size_t size = target.size / target.steps.size();
    for (std::size_t part = 0; part < target.steps.size(); ++part) {
        const auto begin = whole.values.begin() + static_cast<std::ptrdiff_t>(part * size);
        parts.push_back({target.steps[part],
                         target.steps.size() == 1 ? "" : fmt::format("[part {}]", part),
                         {steps_[target.steps[part]].value.shape,
                          {begin, begin + static_cast<std::ptrdiff_t>(size)},
                          ElementType::real}});
    }
    return parts;
}

void Placement::place_misshapen(std::size_t i, std::size_t step)
{
    matches_.push_back({{{step, "", *arrays_[i]}}, {names_[i], steps_[step].path, "by its name", ""}});
}

void Placement::unplace(std::size_t i)
{
    for (const std::size_t step : placed_[i].target->steps)
        known_.unset(step);
    placed_[i] = {};
    matches_.pop_back();
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

bool is_contribution(const Target& target) { return target.text.find(".from.") != std::string::npos; }

} // namespace attn::diff
