// Where the numbers of one array are in another.

#include "alignment.hpp"

#include "../targets.hpp"

#include "attn/core/near.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

namespace attn::diff {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double stands_apart = 100; ///< from the other numbers, over their size: a mask's

bool is_same(double a, double b) { return (std::isnan(a) && std::isnan(b)) || a == b; }

Indices range(std::size_t begin, std::size_t size)
{
    Indices indices(size);
    std::iota(indices.begin(), indices.end(), begin);
    return indices;
}

Shape without_ones(Shape shape)
{
    std::erase(shape, std::size_t{1});
    return shape;
}

/// The places of the numbers that have one of some indices along each axis.
Indices places_of(const Shape& shape, const std::vector<Indices>& parts)
{
    Indices places{0};
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
        Indices next;
        for (const std::size_t place : places)
            for (const std::size_t index : parts[axis])
                next.push_back(place * shape[axis] + index);
        places = std::move(next);
    }
    return places;
}

std::vector<Shape> only(const Shape& lengths)
{
    std::vector<Shape> each;
    for (const std::size_t length : lengths)
        each.push_back({length});
    return each;
}

/// A part has all of an axis, as many as an axis of the other, or one.
std::vector<Shape> any(const Shape& sizes, const Shape& other)
{
    std::vector<Shape> each = only(sizes);
    for (Shape& lengths : each) {
        std::set<std::size_t, std::greater<>> smaller{1};
        smaller.insert(other.begin(), other.end());
        std::ranges::copy_if(smaller, std::back_inserter(lengths), [&](std::size_t one) { return one < lengths[0]; });
    }
    return each;
}

/// The numbers at some places, in the shape that they have without axes of one.
Array part_of(const Array& array, const Indices& places, const Shape& lengths)
{
    Array part{without_ones(lengths), places.empty() ? array.values : std::vector<double>{}};
    for (const std::size_t place : places)
        part.values.push_back(array.values[place]);
    return part;
}

/// Puts the places of an array in the order of the finer axes of another one.
void put_in_order(Indices& places, const Array& array, const Fit& fit)
{
    Array order{array.shape, {places.begin(), places.end()}};
    for (std::size_t i = order.values.size(); i < array.size(); ++i)
        order.values.push_back(static_cast<double>(i));
    order = in_target_layout(order, fit);
    places.assign(order.values.begin(), order.values.end());
}

} // namespace

std::vector<Stretch> stretches_of(const Shape& shape, const Indices& places)
{
    std::vector<Stretch> all;
    for (const std::size_t size : shape)
        all.push_back({size, size, 0});
    for (std::size_t place : places)
        for (std::size_t axis = shape.size(); axis-- > 0; place /= shape[axis]) {
            all[axis].begin = std::min(all[axis].begin, place % shape[axis]);
            all[axis].end = std::max(all[axis].end, place % shape[axis] + 1);
        }
    return all;
}

std::string part_text(const Array& array, const Indices& places, const char* run)
{
    if (places.empty() || places.size() == array.size())
        return "";
    std::vector<std::string> slices;
    for (const auto& [size, begin, end] : stretches_of(array.shape, places))
        slices.push_back(end - begin == size ? ":" : fmt::format("{}:{}", begin, end));
    return fmt::format("[{}] of {}", fmt::join(slices, ", "), run);
}

double Apart::off() const { return !is_finite ? infinity : difference == 0 ? 0 : difference / rms; }

double size_of(const std::vector<double>& numbers)
{
    constexpr double smallest_of_masks = 5e3; // a score is added to -10000
    std::vector<double> sizes;
    double squares = 0, count = 0;
    for (const double number : numbers)
        if (std::isfinite(number)) {
            sizes.push_back(std::abs(number));
            count += number == 0 ? 1 : 0;
        }
    std::erase(sizes, 0.0);
    std::ranges::sort(sizes);
    if (sizes.empty() || (sizes.back() >= smallest_of_masks && sizes.front() == sizes.back()))
        return 0;
    for (const double size : sizes) {
        if (squares > 0 && size >= smallest_of_masks && size > stands_apart * std::sqrt(squares / count))
            break;
        squares += size * size;
        ++count;
    }
    return std::sqrt(squares / count);
}

Apart measure(const Aligned& both)
{
    Apart apart{.count = both.count()};
    std::vector<double> a, b;
    Indices finite;
    for (std::size_t i = 0; i < apart.count; ++i) {
        const double left = both.a->values[both.a_at(i)], right = both.b->values[both.b_at(i)];
        apart.differing += is_same(left, right) ? 0 : 1;
        if (std::isfinite(left) && std::isfinite(right)) {
            a.push_back(left);
            b.push_back(right);
            finite.push_back(i);
        } else if (apart.is_finite && !is_same(left, right)) {
            apart.worst = i;
            apart.is_finite = false;
        }
    }
    if (a.empty() || apart.differing == 0)
        return apart;
    apart.rms = std::max(size_of(a), size_of(b));
    double squares = 0;
    for (std::size_t k = 0; k < a.size(); ++k) {
        const double off = std::abs(a[k] - b[k]), size = std::max({std::abs(a[k]), std::abs(b[k]), apart.rms});
        const double share = apart.rms > 0 && size > stands_apart * apart.rms ? off * apart.rms / size : off;
        squares += share * share;
        if (off > apart.largest * size) {
            apart.largest = off / size;
            apart.worst = apart.is_finite ? finite[k] : apart.worst;
        }
    }
    apart.difference = std::sqrt(squares / static_cast<double>(a.size()));
    return apart;
}

// ------------------------------------------------------------------------------------------------ layouts

/// An array that is searched, and the indices along each axis that are tried.
struct Search::Half {
    const Array& array;
    Shape shape;
    std::vector<Indices> parts = {};

    Shape lengths() const
    {
        Shape sizes;
        for (const Indices& part : parts)
            sizes.push_back(part.size());
        return sizes;
    }
    /// Empty for all of them.
    Indices places() const
    {
        const auto is_all = [](const Indices& part, std::size_t size) { return part == range(0, size); };
        return std::ranges::equal(parts, shape, is_all) ? Indices{} : places_of(shape, parts);
    }
    double corner(bool is_last) const
    {
        std::size_t place = 0;
        for (std::size_t axis = 0; axis < shape.size(); ++axis)
            place = place * shape[axis] + (is_last ? parts[axis].back() : parts[axis].front());
        return array.values[place];
    }
};

/// One search: what it looks for and the nearest so far.
struct Search::Trial {
    Half a, b;
    const std::string& call;
    double most_off;
    Effort effort;
    double slack;                                           ///< that a single number can be off by
    std::vector<Shape> lengths = {};                        ///< possible ones of each axis of A, then of B
    std::size_t count = 0, tries = 0, near = 0, strays = 0; ///< numbers of a part; parts other than known
    std::optional<Found> best = std::nullopt;
    std::vector<Indices> a_best = {}, b_best = {}; ///< its parts
};

/// Chooses the indices along an axis, and goes on with the next.
/// @param rest  how many numbers the remaining axes of the array should have
void Search::choose(Trial& trial, std::size_t axis, std::size_t rest)
{
    const std::size_t rank = trial.a.shape.size();
    if (axis == rank + trial.b.shape.size())
        return try_parts(trial);
    Half& half = axis < rank ? trial.a : trial.b;
    const std::size_t k = axis < rank ? axis : axis - rank;
    const auto go_on = [&](const Indices& part) {
        constexpr std::size_t most_tries = 4000;
        if (trial.tries > most_tries || (is_cut() && trial.effort != Effort::known))
            return;
        half.parts.push_back(part);
        choose(trial, axis + 1, k + 1 == half.shape.size() ? trial.count : rest / part.size());
        half.parts.pop_back();
    };
    for (const std::size_t length : trial.lengths[axis]) {
        if (rest % length != 0 || (k + 1 == half.shape.size() && rest != length))
            continue;
        const std::vector<Indices>& known = known_[{trial.call, axis < rank ? 'A' : 'B', half.shape[k], length}];
        if (length == half.shape[k])
            go_on(range(0, length));
        for (const Indices& part : known)
            go_on(part);
        if (length == half.shape[k] || trial.effort == Effort::known)
            continue;
        trial.strays += known.empty() ? 0 : 1;
        for (std::size_t begin = 0; begin + length <= half.shape[k]; ++begin)
            if (const Indices part = range(begin, length); std::ranges::find(known, part) == known.end())
                go_on(part);
        trial.strays -= known.empty() ? 0 : 1;
    }
}

void Search::try_parts(Trial& trial)
{
    ++trial.tries;
    work_ += 16;
    for (const bool is_last : {false, true}) // they are corners in any order of axes
        if (std::abs(trial.a.corner(is_last) - trial.b.corner(is_last)) > trial.slack)
            return;
    Found found{{&trial.a.array, &trial.b.array, trial.a.places(), trial.b.places()}, 0, trial.strays > 0};
    Aligned& both = found.aligned;
    work_ += 8 * static_cast<double>(both.count());
    if (trial.effort != Effort::known) {
        const Array a = part_of(trial.a.array, both.a_places, trial.a.lengths()),
                    b = part_of(trial.b.array, both.b_places, trial.b.lengths());
        const bool is_a_finer = a.rank() > b.rank();
        const Array &finer = is_a_finer ? a : b, &other = is_a_finer ? b : a;
        const std::vector<std::string> movable(finer.rank(), "h");
        const auto fit = best_fit(other, StepSet{{}, finer.shape, movable, "", finer.size()}, finer);
        if (!fit && a.shape != b.shape)
            return;
        if (fit && !std::ranges::is_sorted(fit->order)) {
            put_in_order(is_a_finer ? both.b_places : both.a_places, other, *fit);
            found.is_odd = found.is_odd || merges(a.shape, b.shape);
        }
    }
    found.off = measure(both).off();
    if (found.off > trial.most_off)
        return;
    ++trial.near;
    if (trial.best && std::pair(trial.best->is_odd, trial.best->off) <= std::pair(found.is_odd, found.off))
        return;
    trial.best = std::move(found);
    trial.a_best = trial.a.parts;
    trial.b_best = trial.b.parts;
}

std::optional<Search::Found> Search::find(const Array& a, const Array& b, const std::string& call, double most_off,
                                          Effort effort)
{
    const bool is_known = effort == Effort::known, is_one_rank = a.rank() == b.rank();
    const Shape as = is_one_rank ? a.shape : without_ones(a.shape), bs = is_one_rank ? b.shape : without_ones(b.shape);
    if (a.values.empty() || b.values.empty() || (is_cut() && !is_known))
        return a.shape == b.shape && !is_cut() ? std::optional(Found{{&a, &b}}) : std::nullopt;
    if (is_known && a.size() == b.size() && as != bs) // the same numbers in another shape
        return Found{{&a, &b}};
    Trial trial{.a = {a, as},
                .b = {b, bs},
                .call = call,
                .most_off = most_off,
                .effort = effort,
                .slack = is_known ? infinity : 4 * most_off * std::max(largest_of(a), largest_of(b))};
    const bool is_a_larger = a.size() > b.size();
    const auto has = [&](double number) {
        work_ += static_cast<double>(std::max(a.size(), b.size())) / 8;
        return std::ranges::any_of((is_a_larger ? a : b).values,
                                   [&](double one) { return !(std::abs(one - number) > trial.slack); });
    };
    if (const Array& part = is_a_larger ? b : a;
        effort == Effort::larger && !(has(part.values.front()) && has(part.values.back())))
        return std::nullopt;
    const auto try_lengths = [&](std::size_t count, std::vector<Shape> of_a, const std::vector<Shape>& of_b) {
        of_a.insert(of_a.end(), of_b.begin(), of_b.end());
        trial.lengths = std::move(of_a);
        trial.count = count;
        if (!trial.best)
            choose(trial, 0, count);
    };
    if (a.size() == b.size())
        try_lengths(a.size(), only(as), only(bs));
    Shape common;
    for (std::size_t k = 0; k < std::min(as.size(), bs.size()); ++k)
        common.push_back(std::min(as[k], bs[k]));
    if (as.size() == bs.size() && as != bs && (effort != Effort::larger || common == as || common == bs))
        try_lengths(element_count(common), only(common), only(common));
    if (a.size() != b.size() && !is_known)
        try_lengths(std::min(a.size(), b.size()), is_a_larger ? any(as, bs) : only(as),
                    is_a_larger ? only(bs) : any(bs, as));
    const auto learn = [&](char run, const Shape& shape, const std::vector<Indices>& parts) {
        for (std::size_t k = 0; k < parts.size(); ++k)
            if (std::vector<Indices>& known = known_[{call, run, shape[k], parts[k].size()}];
                parts[k].size() != shape[k] && std::ranges::find(known, parts[k]) == known.end())
                known.push_back(parts[k]);
    };
    if (trial.near == 1) {
        learn('A', as, trial.a_best);
        learn('B', bs, trial.b_best);
    }
    return std::move(trial.best);
}

// ------------------------------------------------------------------------------------------------ rows

/// Which rows of the one are those of the other, where each is found; those of different lengths as far as both are.
std::optional<Indices> Search::rows(const Array& few, const Array& many, double most_off)
{
    if (few.rank() < 2 || few.rank() != many.rank() || few.values.empty() || many.values.empty() || is_cut())
        return std::nullopt;
    std::vector<Indices> columns{{0}};
    for (std::size_t k = 1; k < few.rank(); ++k)
        columns.push_back(range(0, std::min(few.shape[k], many.shape[k])));
    const Indices few_row = places_of(few.shape, columns), many_row = places_of(many.shape, columns);
    const double slack = most_off * std::max(size_of(few.values), size_of(many.values));
    const auto is_same_row = [&](std::size_t i, std::size_t j) {
        const double *x = &few.values[i * few.size() / few.shape[0]],
                     *y = &many.values[j * many.size() / many.shape[0]];
        return std::ranges::equal(few_row, many_row, [&](std::size_t left, std::size_t right) {
            work_ += 1;
            return is_same(x[left], y[right]) || std::abs(x[left] - y[right]) <= slack;
        });
    };
    Indices found;
    for (std::size_t i = 0; i < few.shape[0]; ++i) {
        std::size_t j = 0;
        while (j < many.shape[0] && !is_same_row(i, j))
            ++j;
        if (j == many.shape[0])
            return std::nullopt;
        found.push_back(j);
    }
    return found;
}

void Search::learn_rows(const Array& a, const Array& b, const std::string& call)
{
    if (a.rank() == 0 || a.rank() != b.rank())
        return;
    const bool is_a_in_b = a.shape[0] <= b.shape[0];
    const auto found = is_a_in_b ? rows(a, b, 1e-6) : rows(b, a, 1e-6);
    if (!found || *found == range(0, found->size()))
        return;
    known_[{call, is_a_in_b ? 'B' : 'A', (is_a_in_b ? b : a).shape[0], found->size()}].push_back(*found);
    for (std::size_t k = 1; k < a.rank(); ++k)
        if (const auto [least, most] = std::minmax(a.shape[k], b.shape[k]); least != most)
            known_[{call, a.shape[k] == most ? 'A' : 'B', most, least}].push_back(range(0, least));
}

bool Search::is_reordered(const Array& a, const Array& b, double most_off)
{
    const auto found = a.shape == b.shape ? rows(a, b, most_off) : std::nullopt;
    return found && *found != range(0, found->size());
}

} // namespace attn::diff
