// What one array of a program can stand for, and in which layouts.

#include "targets.hpp"

#include "attn/core/budget.hpp"
#include "attn/core/number_type.hpp"
#include "attn/formula/scope.hpp"
#include "attn/mistakes/head_scope.hpp"
#include "compare.hpp"
#include "name_vocabulary.hpp"
#include "softmax.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

namespace attn::diff {
namespace {

using Axes = std::vector<std::size_t>;
using Numbers = std::vector<std::size_t>;

constexpr double infinity = std::numeric_limits<double>::infinity();

// ------------------------------------------------------------------------------------------------------------- targets

/// The number of the head that a path is inside of; a backward pass has the last one first.
std::size_t head_of(const std::string& path)
{
    const auto head = mistakes::head_scope(path);
    return head ? std::stoul(std::string(head->number)) : 0;
}

/// "layers.0.self_attn.head.{h}.scaled"
std::string without_head(const std::string& path)
{
    const auto head = mistakes::head_scope(path);
    return head ? std::string(head->before) + "head.{h}" + std::string(head->rest) : path;
}

class Collector {
public:
    explicit Collector(const std::vector<Step>& steps) : steps_(steps)
    {
        for (std::size_t i = 0; i < steps.size(); ++i)
            if (steps[i].value.type == ElementType::real && steps[i].value.size() > 0)
                by_name_[without_head(steps[i].path)].push_back(i);
    }

    std::vector<StepSet> collect()
    {
        for (auto& [name, steps] : by_name_)
            std::ranges::stable_sort(steps, {}, [&](std::size_t step) { return head_of(steps_[step].path); });
        for (const auto& [name, steps] : by_name_) {
            for (const std::size_t step : steps)
                add({step}, {}, {}, steps_[step].path);
            if (steps.size() > 1)
                add(steps, {steps.size()}, {"h"}, name);
            if (const std::vector<Numbers> groups = groups_of(steps); groups.size() > 1 && groups.size() < steps.size())
                add_shared(groups, name);
            else
                add_across_groups(name, steps);
            add_packed(name);
            add_heads_side_by_side(name, steps);
        }
        for (StepSet& target : targets_)
            for (const std::size_t step : target.steps)
                target.length = std::hypot(target.length, length_of(steps_[step].value));
        std::ranges::stable_sort(targets_, {}, [](const StepSet& target) { return target.first(); });
        return std::move(targets_);
    }

private:
    void add(Numbers steps, Shape stack, std::vector<std::string> letters, std::string text)
    {
        const Step& first = steps_[steps.front()];
        if (!std::ranges::all_of(steps, [&](std::size_t i) { return steps_[i].value.shape == first.value.shape; }))
            return;
        Shape shape = std::move(stack);
        shape.insert(shape.end(), first.value.shape.begin(), first.value.shape.end());
        letters.insert(letters.end(), first.axes.begin(), first.axes.end());
        letters.resize(shape.size(), "?");
        const std::size_t size = element_count(shape);
        const bool masked = std::ranges::any_of(steps, [&](std::size_t i) { return is_masked(steps_[i].value); });
        targets_.push_back({std::move(steps), std::move(shape), std::move(letters), std::move(text), size, masked});
    }

    /// Heads that share keys and values have them each.
    std::vector<Numbers> groups_of(const Numbers& steps) const
    {
        std::vector<Numbers> groups;
        for (const std::size_t step : steps)
            if (groups.empty() || steps_[step].value.values != steps_[groups.back().front()].value.values)
                groups.push_back({step});
            else
                groups.back().push_back(step);
        return groups;
    }

    void add_shared(const std::vector<Numbers>& groups, const std::string& name)
    {
        Numbers firsts;
        for (const Numbers& group : groups)
            firsts.push_back(group.front());
        const std::size_t known = targets_.size();
        add(firsts, {groups.size()}, {"g"}, name);
        if (targets_.size() > known)
            for (const Numbers& group : groups)
                targets_.back().copies.emplace_back(group.begin() + 1, group.end());
    }

    /// Of heads that share keys and values the first of all groups, then the second, and so on: (r, g, n, d).
    void add_across_groups(const std::string& name, const Numbers& steps)
    {
        const auto head = mistakes::head_scope(steps_[steps.front()].path);
        const auto values = head ? by_name_.find(std::string(head->before) + "head.{h}.values") : by_name_.end();
        if (values == by_name_.end() || values->second.size() != steps.size())
            return;
        const std::size_t groups = groups_of(values->second).size(), shared = steps.size() / groups;
        if (groups == 1 || shared == 1)
            return;
        Numbers across;
        for (std::size_t i = 0; i < steps.size(); ++i)
            across.push_back(steps[i % groups * shared + i / groups]);
        const std::size_t known = targets_.size();
        add(across, {steps.size()}, {"h"}, name);
        if (targets_.size() > known)
            targets_.back().apart = {shared, groups};
    }

    /// Gradients of keys and values that heads share are sums over those heads: there is no step of one head.
    void add_heads_side_by_side(const std::string& name, const Numbers& steps)
    {
        const Step& first = steps_[steps.front()];
        if (steps.size() > 1 || !first.path.starts_with(formula::gradient_scope) || first.value.rank() < 2)
            return;
        for (const auto& [one, many, words] : roles) {
            if (!name.ends_with('.' + std::string(one)))
                continue;
            const auto heads =
                by_name_.find(name.substr(0, name.size() - one.size()) + "head.{h}." + std::string(many));
            if (heads == by_name_.end())
                continue;
            const std::size_t width = row_length(steps_[heads->second.front()].value), all = row_length(first.value);
            if (width == 0 || all % width != 0 || all == width)
                continue;
            Shape shape = first.value.shape;
            shape.back() = all / width;
            shape.push_back(width);
            std::vector<std::string> letters = first.axes;
            letters.resize(first.value.rank(), "?");
            letters.back() = "h";
            letters.emplace_back("d_k");
            targets_.push_back({steps, std::move(shape), std::move(letters), name, first.value.size()});
        }
    }

    /// Queries, keys and values in one array, in any order; or their weights, or biases.
    void add_packed(const std::string& name)
    {
        const std::size_t at = name.rfind('.') + 1;
        for (const auto word : {&Role::many, &Role::one})
            if (const std::string_view first = roles[0].*word; name.compare(at, first.size(), first) == 0)
                add_packed(name.substr(0, at), word, name.substr(at + first.size()));
    }

    void add_packed(const std::string& scope, std::string_view Role::*word, const std::string& rest)
    {
        std::array<const Numbers*, std::size(roles)> parts{};
        std::array<std::string, std::size(roles)> names;
        for (std::size_t part = 0; part < parts.size(); ++part) {
            names[part] = std::string(roles[part].*word) + rest;
            const auto found = by_name_.find(scope + names[part]);
            if (found == by_name_.end() || (part > 0 && found->second.size() != parts[0]->size()))
                return;
            parts[part] = &found->second;
        }
        std::array<std::size_t, 3> order{0, 1, 2};
        do {
            Numbers steps;
            std::string text;
            for (const std::size_t part : order) {
                steps.insert(steps.end(), parts[part]->begin(), parts[part]->end());
                text += (text.empty() ? scope : "|") + names[part];
            }
            const std::size_t heads = parts[0]->size();
            if (heads > 1)
                add(steps, {3, heads}, {"three", "h"}, text);
            else
                add(steps, {3}, {"three"}, text);
        } while (std::ranges::next_permutation(order).found);
    }

    const std::vector<Step>& steps_;
    std::map<std::string, Numbers> by_name_;
    std::vector<StepSet> targets_;
};

// ------------------------------------------------------------------------------------------------------------- layouts

Shape permuted_shape(const Shape& shape, const Axes& order)
{
    Shape result;
    for (const std::size_t axis : order)
        result.push_back(shape[axis]);
    return result;
}

/// Where a number of permuted(target, order) stands in the target.
class Places {
public:
    Places(const Shape& shape, const Axes& order) : shape_(permuted_shape(shape, order))
    {
        Shape strides(shape.size(), 1);
        for (std::size_t axis = shape.size(); axis-- > 1;)
            strides[axis - 1] = strides[axis] * shape[axis];
        strides_ = permuted_shape(strides, order);
    }

    std::size_t operator()(std::size_t offset) const
    {
        std::size_t place = 0;
        for (std::size_t axis = shape_.size(); axis-- > 0; offset /= shape_[axis])
            place += offset % shape_[axis] * strides_[axis];
        return place;
    }

private:
    Shape shape_, strides_;
};

/// The smallest finite number; what is masked lies below it.
double lowest_of(const Array& array)
{
    double lowest = infinity;
    for (const double value : array.values)
        if (std::isfinite(value))
            lowest = std::min(lowest, value);
    return lowest;
}

/// The same as relative_distance, of every stride-th number.
template <class Place>
double distance_of(const Array& found, const Array& expected, const Place& place, std::size_t stride)
{
    double square = 0, expected_square = 0;
    std::size_t compared = 0, nans = 0;
    std::optional<double> lowest; // few arrays are masked
    for (std::size_t i = 0; i < found.size(); i += stride) {
        const double right = expected.values[place(i)];
        if (right == -infinity && !lowest)
            lowest = lowest_of(expected);
        if (right == -infinity && found.values[i] >= *lowest)
            return infinity; // not masked
        nans += std::isnan(found.values[i]) && !std::isnan(right) ? 1 : 0;
        if (std::isinf(right) || std::isnan(found.values[i]))
            continue;
        ++compared;
        const double off = found.values[i] - right;
        square += off * off;
        expected_square += right * right;
    }
    if (compared == 0 || nans > compared)
        return infinity;
    if (square == 0)
        return 0;
    const double distance = std::sqrt(square / expected_square);
    return std::isnan(distance) ? infinity : distance;
}

/// True for an order of axes that programs have: heads before their features, the others as in the step; the axis of
/// sequences can stand anywhere before the features.
bool is_natural(const StepSet& target, const Axes& order)
{
    if (is_map(target) && order.size() > 1) { // (d_in, d_out), or as PyTorch has it
        Axes swapped = order;
        std::swap(swapped[order.size() - 2], swapped.back());
        if (std::ranges::is_sorted(swapped))
            return true;
    }
    std::size_t last = 0;
    for (const std::size_t axis : order) {
        const std::string& letter = target.letters[axis];
        const bool moves = letter == "b" || letter == "h" || letter == "g" || letter == "three";
        if (moves && last + 1 == order.size())
            return false; // after the features
        if (!moves && axis < last)
            return false;
        if (!moves)
            last = axis;
    }
    return true;
}

/// How many pairs of axes have another order than in the arrays around.
std::size_t contradictions(const StepSet& target, const Axes& order,
                           const std::vector<std::vector<std::string>>& around)
{
    std::size_t count = 0;
    for (const std::vector<std::string>& letters : around)
        for (std::size_t i = 0; i < order.size(); ++i)
            for (std::size_t k = i + 1; k < order.size(); ++k) {
                const auto first = std::ranges::find(letters, target.letters[order[i]]),
                           second = std::ranges::find(letters, target.letters[order[k]]);
                count += first != letters.end() && second < first ? 1 : 0;
            }
    return count;
}

} // namespace

bool merges(const Shape& axes, const Shape& shape)
{
    std::size_t at = 0, i = 0;
    const auto next = [](const Shape& of, std::size_t& place) {
        while (place < of.size() && of[place] == 1)
            ++place;
        return place < of.size() ? of[place++] : 1;
    };
    while (true) {
        std::size_t one = next(axes, at), other = next(shape, i);
        if (one == 1 || other == 1)
            return one == other;
        const bool is_split = one > other; // one of several, never some of several
        std::size_t& product = is_split ? other : one;
        while (product < (is_split ? one : other)) {
            const std::size_t more = is_split ? next(shape, i) : next(axes, at);
            if (more == 1)
                return false;
            product *= more;
        }
        if (one != other)
            return false;
    }
}

std::vector<StepSet> targets_of(const std::vector<Step>& steps) { return Collector(steps).collect(); }

std::optional<Array> half_of(const Array& array)
{
    const std::size_t row = row_length(array), half = row / 2;
    if (row % 2 != 0 || array.rank() == 0)
        return std::nullopt;
    Array result{array.shape, {}, array.type};
    result.shape.back() = half;
    for (auto at = array.values.begin(); at != array.values.end(); at += static_cast<std::ptrdiff_t>(row)) {
        const auto middle = at + static_cast<std::ptrdiff_t>(half);
        if (!std::equal(at, middle, middle))
            return std::nullopt;
        result.values.insert(result.values.end(), at, middle);
    }
    return result;
}

bool is_map(const StepSet& target) { return target.text.ends_with("_weights") && target.shape.size() > 1; }

bool is_square(const StepSet& target) { return target.shape.back() == target.shape[target.shape.size() - 2]; }

bool is_turned(const Fit& fit)
{
    const std::size_t rank = fit.shape.size();
    return std::ranges::find(fit.order, rank - 1) < std::ranges::find(fit.order, rank - 2);
}

void swap_maps_axes(Fit& fit)
{
    const std::size_t rank = fit.shape.size();
    std::iter_swap(std::ranges::find(fit.order, rank - 1), std::ranges::find(fit.order, rank - 2));
}

double near_enough(const Array& found)
{
    constexpr double of_most = 0.02, of_bfloat16 = 0.08;
    const auto is_short = [](double number) { return is_exactly(NumberType::bfloat16, number); };
    return std::ranges::all_of(found.values, is_short) ? of_bfloat16 : of_most;
}

double right_enough(const Array& found)
{
    constexpr double of_float32 = 1e-4, roundings = 8;
    for (const NumberType type : {NumberType::bfloat16, NumberType::float16})
        if (std::ranges::all_of(found.values, [type](double number) { return is_exactly(type, number); }))
            return roundings * roundoff_of(type);
    return of_float32;
}

double relative_distance(const Array& found, const Array& expected)
{
    return found.size() != expected.size() ? infinity
                                           : distance_of(
                                                 found, expected, [](std::size_t i) { return i; }, 1);
}

double length_of(const Array& array)
{
    constexpr double operations = 30, operations_each = 0.5; // beside its numbers
    spend(operations + operations_each * static_cast<double>(array.size()));
    double square = 0;
    for (const double number : array.values)
        square += number * number;
    return std::sqrt(square);
}

bool can_be_as_near(double distance, double found_length, double expected_length)
{
    constexpr double rounding = 1e-6;
    return !std::isfinite(found_length + expected_length) ||
           std::abs(found_length - expected_length) <= (distance + rounding) * expected_length;
}

std::optional<Fit> best_fit(const Array& found, const StepSet& target, const Array& numbers,
                            const std::vector<std::vector<std::string>>& around)
{
    constexpr std::size_t most_axes = 5, samples = 61;
    constexpr double far_away = 0.5; // of a sample
    constexpr double clearly_nearer =
        0.5; // as the step has its axes: of wrong numbers, another order is nearer by chance
    if (found.size() != numbers.size() || numbers.rank() > most_axes ||
        (!target.apart.empty() && std::ranges::search(found.shape, target.apart).empty()))
        return std::nullopt;
    const std::size_t stride = found.size() / samples + 1;
    using Rank = std::tuple<bool, std::size_t>; // the least is the best, whatever the distance
    std::optional<Fit> best;
    Rank best_rank;
    Axes order(numbers.rank());
    std::iota(order.begin(), order.end(), std::size_t{0});
    do {
        if (!merges(permuted_shape(numbers.shape, order), found.shape))
            continue;
        const Rank rank{!is_natural(target, order), contradictions(target, order, around)};
        if (best && rank > best_rank)
            continue;
        const Places place(numbers.shape, order);
        double distance = infinity;
        for (const std::size_t every : {stride, std::size_t{1}}) {
            constexpr double operations = 1000, operations_each = 4;
            spend(operations + operations_each * static_cast<double>(found.size() / every));
            distance = distance_of(found, numbers, place, every);
            if (every == 1 || !(distance < far_away))
                break;
        }
        const double most = best && std::ranges::is_sorted(best->order) ? clearly_nearer : 1;
        if (!best || rank < best_rank || distance < most * best->distance) {
            best = Fit{order, numbers.shape, distance};
            best_rank = rank;
        }
    } while (std::ranges::next_permutation(order).found);
    return best;
}

Array in_target_layout(const Array& found, const Fit& fit)
{
    Array result{fit.shape, std::vector<double>(found.size()), found.type};
    const Places place(fit.shape, fit.order);
    for (std::size_t i = 0; i < found.size(); ++i)
        result.values[place(i)] = found.values[i];
    return result;
}

std::string layout_text(const StepSet& target, const Fit& fit, const Shape& found)
{
    std::string text;
    std::size_t at = 0, left = 1; // of a target's axis that is split
    for (const std::size_t size : found) {
        std::string axis;
        for (std::size_t product = 1; product < size && (left > 1 || at < fit.order.size());) {
            left = left > 1 ? left : fit.shape[fit.order[at++]];
            if (left == 1)
                continue;
            axis += (axis.empty() ? "" : " ") + target.letters[fit.order[at - 1]];
            const std::size_t taken = std::min(left, size / product);
            product *= taken;
            left /= taken;
        }
        text += (text.empty() ? "" : ", ") + (axis.empty() ? "1" : axis);
    }
    return '(' + text + ')';
}

} // namespace attn::diff
