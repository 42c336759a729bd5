// Where the numbers of one array are in another.

#include "alignment.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace attn::diff {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double smallest_of_masks = 1e4; // numbers that stand for minus infinity are larger

bool is_same_unusual(double a, double b) { return (std::isnan(a) && std::isnan(b)) || a == b; }

Indices range(std::size_t begin, std::size_t size, std::size_t stride = 1)
{
    Indices indices(size);
    for (std::size_t i = 0; i < size; ++i)
        indices[i] = (begin + i) * stride;
    return indices;
}

Indices scaled(Indices indices, std::size_t stride)
{
    for (std::size_t& index : indices)
        index *= stride;
    return indices;
}

double squares_of(const Array& array)
{
    double squares = 0;
    for (const double number : array.values)
        squares += std::isfinite(number) ? number * number : 0;
    return squares;
}

} // namespace

std::size_t View::first() const
{
    std::size_t place = 0;
    for (const Indices& axis : axes)
        place += axis.empty() ? 0 : axis.front();
    return place;
}

std::string View::part_text(const char* run) const
{
    std::size_t count = 1;
    for (const Indices& axis : axes)
        count *= axis.size();
    if (count == array->size())
        return "";
    Shape begin(array->rank(), 0), end(array->rank(), 1); // each axis of the view is of some of the array's
    for (const Indices& axis : axes) {
        Shape least = array->shape, most(array->rank(), 0);
        for (const std::size_t place : axis) {
            const Shape index = index_at(place, array->shape);
            for (std::size_t k = 0; k < index.size(); ++k) {
                least[k] = std::min(least[k], index[k]);
                most[k] = std::max(most[k], index[k]);
            }
        }
        for (std::size_t k = 0; k < begin.size(); ++k) {
            begin[k] += least[k];
            end[k] += most[k];
        }
    }
    std::vector<std::string> slices;
    for (std::size_t k = 0; k < begin.size(); ++k)
        slices.push_back(end[k] - begin[k] == array->shape[k] ? ":" : fmt::format("{}:{}", begin[k], end[k]));
    return fmt::format("[{}] of {}", fmt::join(slices, ", "), run);
}

double Apart::off() const { return !is_finite ? infinity : difference == 0 ? 0 : difference / rms; }

double size_of(const std::vector<double>& numbers)
{
    constexpr double most = 1000; // over one of the smallest
    std::vector<double> sizes;
    double squares = 0, finite = 0;
    for (const double number : numbers)
        if (std::isfinite(number)) {
            squares += number * number;
            ++finite;
            if (number != 0)
                sizes.push_back(std::abs(number));
        }
    if (sizes.empty())
        return 0;
    const double size = std::sqrt(squares / finite);
    const auto [least, largest] = std::ranges::minmax(sizes);
    if (largest < smallest_of_masks)
        return size;
    const auto small = sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 100);
    std::ranges::nth_element(sizes, small);
    return least == largest ? 0 : std::min(size, most * *small);
}

Apart measure(const Aligned& both)
{
    Apart apart;
    double a_squares = 0, b_squares = 0, squares = 0, finite = 0, largest = 0;
    both.each([&](std::size_t a, std::size_t b) {
        const double left = both.a.array->values[a], right = both.b.array->values[b];
        ++apart.count;
        if (std::isfinite(left) && std::isfinite(right)) {
            ++finite;
            a_squares += left * left;
            b_squares += right * right;
            squares += (left - right) * (left - right);
            largest = std::max({largest, std::abs(left), std::abs(right)});
            apart.differing += left != right ? 1 : 0;
        } else if (!is_same_unusual(left, right)) {
            if (apart.is_finite)
                std::tie(apart.a_worst, apart.b_worst) = std::pair(a, b);
            apart.is_finite = false;
            ++apart.differing;
        }
        return true;
    });
    if (finite == 0 || apart.differing == 0)
        return apart;
    apart.rms = std::sqrt(std::max(a_squares, b_squares) / finite);
    apart.difference = std::sqrt(squares / finite);
    if (largest >= smallest_of_masks) {
        std::vector<double> a_numbers, b_numbers;
        both.each([&](std::size_t a, std::size_t b) {
            a_numbers.push_back(both.a.array->values[a]);
            b_numbers.push_back(both.b.array->values[b]);
            return true;
        });
        apart.rms = std::max(size_of(a_numbers), size_of(b_numbers));
    }
    both.each([&](std::size_t a, std::size_t b) {
        const double left = both.a.array->values[a], right = both.b.array->values[b];
        const double size = std::max({std::abs(left), std::abs(right), apart.rms});
        if (std::isfinite(left) && std::isfinite(right) && std::abs(left - right) > apart.largest * size) {
            apart.largest = std::abs(left - right) / size;
            if (apart.is_finite)
                std::tie(apart.a_worst, apart.b_worst) = std::pair(a, b);
        }
        return true;
    });
    return apart;
}

// ------------------------------------------------------------------------------------------------ layouts

/// One search: what it looks for and the nearest so far.
struct Search::Trial {
    const Array &a, &b;
    const std::string& call;
    double most_off;
    bool a_can_be_cut, b_can_be_cut;
    bool is_plain = false;     ///< axes in their order, parts as known
    Aligned both{{&a}, {&b}};  ///< as far as it is paired
    double squares = infinity; ///< no part of both has more
    std::size_t tries = 0, near = 0;
    std::size_t a_splits = 0, b_splits = 0,
                strays = 0; ///< on the way to where it is: axes split, parts other than known
    bool is_over = false, has_plain = false;
    std::optional<Found> best = std::nullopt;
    std::vector<std::tuple<std::size_t, std::size_t, Along>> cuts = {}, best_cuts = {};
};

std::vector<Search::Axis> Search::axes_of(const Array& array, bool without_ones)
{
    std::vector<Axis> axes(array.rank());
    std::size_t stride = 1;
    for (std::size_t i = array.rank(); i-- > 0; stride *= array.shape[i])
        axes[i] = {array.shape[i], stride};
    if (without_ones)
        std::erase_if(axes, [](const Axis& axis) { return axis.size == 1; });
    return axes;
}

/// All numbers are paired: how far off are they?
void Search::leaf(Trial& trial)
{
    const Aligned& both = trial.both;
    constexpr std::size_t most_tries = 4000;
    const double most = trial.most_off * trial.most_off * trial.squares;
    double squares = 0, count = 0;
    bool is_near = true;
    both.each([&](std::size_t a, std::size_t b) {
        const double left = trial.a.values[a], right = trial.b.values[b];
        const bool is_finite = std::isfinite(left) && std::isfinite(right);
        squares += is_finite ? (left - right) * (left - right) : is_same_unusual(left, right) ? 0 : infinity;
        ++count;
        return is_near = squares <= most;
    });
    work_ += count + 8;
    const bool is_whole = trial.a.size() == trial.b.size(), is_first = trial.tries++ == 0;
    const double off = is_near ? measure(both).off() : infinity;
    if (off <= trial.most_off) {
        ++trial.near;
        const bool is_odd = trial.strays > 0 || (is_whole && trial.has_plain && !trial.is_plain);
        if (!trial.best || std::pair(is_odd, off) < std::pair(trial.best->is_odd, trial.best->off)) {
            trial.best = Found{both, off, is_odd};
            trial.best_cuts = trial.cuts;
        }
        trial.is_over = is_first && is_whole && !trial.is_plain;
    }
    trial.has_plain = trial.has_plain || is_first;
    trial.is_over = trial.is_over || trial.tries > most_tries || is_cut();
}

/// Pairs an axis of each, and goes on with the others.
void Search::pair_axes(Trial& trial, const std::vector<Axis>& a, const std::vector<Axis>& b, Axis x, Axis y,
                       bool is_ordered)
{
    const auto go_on = [&](const Along& along) {
        if (trial.is_over)
            return;
        trial.both.a.axes.insert(trial.both.a.axes.begin(), scaled(along.a, x.stride));
        trial.both.b.axes.insert(trial.both.b.axes.begin(), scaled(along.b, y.stride));
        match(trial, a, b);
        trial.both.a.axes.erase(trial.both.a.axes.begin());
        trial.both.b.axes.erase(trial.both.b.axes.begin());
    };
    const std::size_t size = std::min(x.size, y.size), room = std::max(x.size, y.size) - size;
    if (room == 0)
        go_on({range(0, size), range(0, size)});
    if (!is_ordered)
        return;
    const auto found = known_.find({trial.call, x.size, y.size});
    const std::vector<Along> known = found == known_.end() ? std::vector<Along>{} : found->second;
    for (const Along& along : known)
        go_on(along);
    if (room == 0 || trial.is_plain || !(x.size > y.size ? trial.a_can_be_cut : trial.b_can_be_cut))
        return;
    trial.strays += known.empty() ? 0 : 1;
    for (std::size_t begin = 0; begin <= room; ++begin) {
        const Indices part = range(begin, size), whole = range(0, size);
        const Along along = x.size > y.size ? Along{part, whole} : Along{whole, part};
        if (std::ranges::find(known, along) != known.end())
            continue;
        trial.cuts.emplace_back(x.size, y.size, along);
        go_on(along);
        trial.cuts.pop_back();
    }
    trial.strays -= known.empty() ? 0 : 1;
}

void Search::match(Trial& trial, std::vector<Axis> a, std::vector<Axis> b)
{
    if (a.empty() && b.empty())
        return leaf(trial);
    if (a.empty() || b.empty()) { // one place of an axis that the other does not have
        const bool is_a = b.empty();
        std::vector<Axis>& rest = is_a ? a : b;
        const Axis axis = rest.back(), one{1, 0};
        rest.pop_back();
        return pair_axes(trial, a, b, is_a ? axis : one, is_a ? one : axis, true);
    }
    const Axis x = a.back();
    a.pop_back();
    for (std::size_t k = b.size(); k-- > (trial.is_plain ? b.size() - 1 : 0) && !trial.is_over;) {
        const Axis y = b[k];
        std::vector<Axis> others = b;
        others.erase(others.begin() + static_cast<std::ptrdiff_t>(k));
        pair_axes(trial, a, others, x, y, k + 1 == b.size());

        // or the larger is merged of two axes; one of the arrays has the finer ones throughout
        const bool is_x = x.size > y.size;
        const std::size_t size = std::min(x.size, y.size), factor = std::max(x.size, y.size) / size;
        if (trial.is_plain || factor == 1 || factor * size != std::max(x.size, y.size) ||
            (is_x ? trial.b_splits : trial.a_splits) > 0)
            continue;
        std::size_t& splits = is_x ? trial.a_splits : trial.b_splits;
        ++splits;
        for (const bool is_inner : {true, false}) {
            const std::size_t stride = is_x ? x.stride : y.stride;
            const Axis part{size, is_inner ? stride : stride * factor}, rest{factor, is_inner ? stride * size : stride};
            std::vector<Axis> as = a, bs = others;
            if (is_x)
                as.push_back(rest);
            else
                bs.insert(bs.begin() + static_cast<std::ptrdiff_t>(k), rest);
            pair_axes(trial, as, bs, is_x ? part : x, is_x ? y : part, false);
        }
        --splits;
    }
    if (a.size() >= b.size() && !trial.is_plain) // or b has only one place of it
        pair_axes(trial, a, b, x, {1, 0}, true);
}

std::optional<Search::Found> Search::near(const Array& a, const Array& b, const std::string& call, double most_off,
                                          Cut cut)
{
    if (a.values.empty() || b.values.empty() || is_cut())
        return std::nullopt;
    const bool is_either = cut == Cut::either;
    std::vector<Axis> as = axes_of(a), bs = axes_of(b);
    Trial trial{.a = a,
                .b = b,
                .call = call,
                .most_off = most_off,
                .a_can_be_cut = is_either || a.size() > b.size(),
                .b_can_be_cut = is_either || b.size() > a.size(),
                .is_plain = std::ranges::equal(as, bs, {}, &Axis::size, &Axis::size),
                .squares = std::max(squares_of(a), squares_of(b))};
    match(trial, as, bs);
    if (trial.near == 1)
        for (auto& [a_size, b_size, along] : trial.best_cuts)
            known_[{call, a_size, b_size}].push_back(std::move(along));
    return trial.best;
}

std::optional<Search::Found> Search::plain(const Array& a, const Array& b, const std::string& call)
{
    if (a.values.empty() || b.values.empty())
        return a.shape == b.shape ? std::optional(Found{{{&a, {{}}}, {&b, {{}}}}}) : std::nullopt;
    Trial trial{.a = a,
                .b = b,
                .call = call,
                .most_off = infinity,
                .a_can_be_cut = true,
                .b_can_be_cut = true,
                .is_plain = true};
    const bool is_of_one_rank = a.rank() == b.rank();
    std::vector<Axis> as = axes_of(a, !is_of_one_rank), bs = axes_of(b, !is_of_one_rank);
    if (a.size() == b.size() && !std::ranges::equal(as, bs, {}, &Axis::size, &Axis::size))
        as = bs = {{a.size(), 1}}; // the same numbers in another shape
    match(trial, as, bs);
    return trial.best;
}

// ------------------------------------------------------------------------------------------------ rows

/// Which row of the one is which of the other, where each row of one is found; those of different lengths are cut.
std::optional<Along> Search::rows(const Array& a, const Array& b, double most_off)
{
    if (a.rank() != b.rank() || a.rank() < 2 || a.values.empty() || b.values.empty() || is_cut())
        return std::nullopt;
    Aligned row{{&a}, {&b}};
    std::size_t a_stride = 1, b_stride = 1;
    for (std::size_t k = a.rank(); k-- > 1; a_stride *= a.shape[k], b_stride *= b.shape[k]) {
        const std::size_t size = std::min(a.shape[k], b.shape[k]);
        row.a.axes.insert(row.a.axes.begin(), range(0, size, a_stride));
        row.b.axes.insert(row.b.axes.begin(), range(0, size, b_stride));
    }
    const double most =
        most_off * most_off *
        std::max(squares_of(a) / static_cast<double>(a.shape[0]), squares_of(b) / static_cast<double>(b.shape[0]));
    const auto is_same = [&](std::size_t i, std::size_t j) {
        double squares = 0;
        row.each([&](std::size_t left, std::size_t right) {
            const double x = a.values[i * a_stride + left], y = b.values[j * b_stride + right];
            squares += is_same_unusual(x, y) ? 0 : (x - y) * (x - y);
            work_ += 1;
            return squares <= most; // false for NaN
        });
        return squares <= most;
    };
    Along along;
    const bool is_a_in_b = a.shape[0] <= b.shape[0];
    for (std::size_t i = 0; i < std::min(a.shape[0], b.shape[0]); ++i) {
        std::size_t j = 0;
        const std::size_t others = std::max(a.shape[0], b.shape[0]);
        while (j < others && !(is_a_in_b ? is_same(i, j) : is_same(j, i)))
            ++j;
        if (j == others)
            return std::nullopt;
        along.a.push_back(is_a_in_b ? i : j);
        along.b.push_back(is_a_in_b ? j : i);
    }
    return along;
}

void Search::learn_rows(const Array& a, const Array& b, const std::string& call)
{
    const auto along = rows(a, b, 1e-6);
    if (!along || along->a == along->b)
        return;
    known_[{call, a.shape[0], b.shape[0]}].push_back(*along);
    for (std::size_t k = 1; k < a.rank(); ++k)
        if (const std::size_t size = std::min(a.shape[k], b.shape[k]); a.shape[k] != b.shape[k])
            known_[{call, a.shape[k], b.shape[k]}].push_back({range(0, size), range(0, size)});
}

bool Search::is_reordered(const Array& a, const Array& b, double most_off)
{
    const auto along = a.shape == b.shape ? rows(a, b, most_off) : std::nullopt;
    return along && along->a != along->b;
}

} // namespace attn::diff
