// Which array of one run is which of the other.

#include "pairing.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

namespace attn::diff {
namespace {

using Axes = std::vector<std::size_t>;

constexpr double most_off = 0.05;    // relative: two arrays that are meant to be the same, in any type
constexpr std::size_t most_axes = 5; // whose orders are tried

Axes counted(std::size_t count)
{
    Axes axes(count);
    std::iota(axes.begin(), axes.end(), std::size_t{0});
    return axes;
}

/// The array with as many axes as there are in the order, of size 1 in front where it has fewer.
View view_of(const Array& array, const Axes& order)
{
    const std::size_t added = order.size() - array.rank();
    std::vector<std::size_t> strides(order.size(), 0);
    Shape shape(order.size(), 1);
    std::size_t stride = 1;
    for (std::size_t i = array.rank(); i-- > 0;) {
        shape[added + i] = array.shape[i];
        strides[added + i] = stride;
        stride *= array.shape[i];
    }
    View view{.array = &array, .shape = {}, .strides = {}};
    for (const std::size_t axis : order) {
        view.shape.push_back(shape[axis]);
        view.strides.push_back(strides[axis]);
        view.axes.push_back(axis < added ? array.rank() : axis - added);
    }
    view.offsets.assign(order.size(), 0);
    return view;
}

/// Calls it with the places of each number in both arrays; ends where it returns false.
template <class Take>
void walk(const Aligned& both, const Take& take)
{
    const Shape& shape = both.a.shape;
    if (std::ranges::find(shape, std::size_t{0}) != shape.end())
        return;
    Shape index(shape.size(), 0);
    std::size_t a = both.a.begin, b = both.b.begin;
    while (take(a, b)) {
        std::size_t axis = shape.size();
        while (axis-- > 0) {
            a += both.a.strides[axis];
            b += both.b.strides[axis];
            if (++index[axis] < shape[axis])
                break;
            a -= both.a.strides[axis] * shape[axis];
            b -= both.b.strides[axis] * shape[axis];
            index[axis] = 0;
        }
        if (axis > shape.size()) // all of them began again
            return;
    }
}

bool is_same_unusual(double a, double b) { return (std::isnan(a) && std::isnan(b)) || a == b; }

// ------------------------------------------------------------------------------------------------ parts

/// Where a smaller array begins in a larger one, per axis of other sizes, as far as arrays have shown it.
using Offsets = std::map<std::tuple<std::string, std::size_t, std::size_t>, std::size_t>;

/// Both cut to what they have in common, from offsets per axis in whichever is larger.
Aligned cut(View a, View b, const Shape& offsets)
{
    Aligned both{std::move(a), std::move(b)};
    for (std::size_t i = 0; i < offsets.size(); ++i) {
        if (both.a.shape[i] == both.b.shape[i])
            continue;
        View& larger = both.a.shape[i] > both.b.shape[i] ? both.a : both.b;
        larger.begin += offsets[i] * larger.strides[i];
        larger.offsets[i] = offsets[i];
        both.is_part = true;
        both.a.shape[i] = both.b.shape[i] = std::min(both.a.shape[i], both.b.shape[i]);
    }
    return both;
}

/// Looks for arrays in others, and counts what it looks at.
class Search {
public:
    /// @param call  what the arrays' part depends on besides their sizes: the call that they are of
    std::optional<Aligned> align(const Array& a, const Array& b, const std::string& call)
    {
        if (a.values.empty() || b.values.empty())
            return a.shape == b.shape ? in_order(a, b, counted(a.rank()), call) : std::nullopt;
        const std::size_t rank = std::max(a.rank(), b.rank());
        std::optional<Aligned> plain, best;
        double off = std::numeric_limits<double>::infinity();
        Axes order = counted(rank);
        do {
            auto found = in_order(a, b, order, call);
            if (!found)
                continue;
            const Apart apart = measure_counted(*found);
            if (std::ranges::is_sorted(order)) {
                if (apart.is_near())
                    return found;
                plain = found;
            }
            if (apart.is_near() && apart.off() < off) {
                off = apart.off();
                best = std::move(found);
            }
        } while (rank <= most_axes && std::next_permutation(order.begin(), order.end()));
        if (!best && a.size() == b.size() && a.rank() != b.rank())
            best = reshaped(a, b);
        return best ? best : plain;
    }

    /// True where both are the same up to roundings, in whatever order of axes, and not by chance.
    std::optional<Aligned> find(const Array& a, const Array& b, const std::string& call)
    {
        if (is_cut() || a.type != b.type || std::min(a.size(), b.size()) < 4 || !tells(a) || !tells(b))
            return std::nullopt;
        const bool is_one_size = a.size() == b.size();
        if (!is_one_size && a.rank() != b.rank()) // a part is found by its name, or with as many axes
            return std::nullopt;
        auto found = align(a, b, call);
        if (!found || !measure_counted(*found).is_near() || !tells(found->a))
            return std::nullopt;
        return found;
    }

    bool is_cut() const { return work_ > most_work; }

private:
    static constexpr double most_work = 4e9;

    Apart measure_counted(const Aligned& both)
    {
        work_ += static_cast<double>(element_count(both.a.shape));
        return measure(both);
    }

    /// Different numbers: what is constant is everywhere.
    static bool tells(const Array& array)
    {
        const auto is_first = [&](double number) { return is_same_unusual(number, array.values.front()); };
        return !std::ranges::all_of(array.values, is_first);
    }

    static bool tells(const View& view)
    {
        bool found = false;
        const double first = view.array->values[view.begin];
        walk({view, view}, [&](std::size_t place, std::size_t) {
            found = !is_same_unusual(view.array->values[place], first);
            return !found;
        });
        return found;
    }

    std::optional<Aligned> in_order(const Array& a, const Array& b, const Axes& order, const std::string& call)
    {
        const View left = view_of(a, counted(order.size())), right = view_of(b, order);
        const bool is_plain = std::ranges::is_sorted(order);
        std::vector<std::size_t> other;
        for (std::size_t i = 0; i < order.size(); ++i)
            if (left.shape[i] != right.shape[i])
                other.push_back(i);
        if (other.empty())
            return cut(left, right, Shape(order.size(), 0));
        if (!is_plain)
            return std::nullopt; // a part has its axes in their order
        return best_part(left, right, other, call);
    }

    /// The part where they are nearest; the one that is known where that is near, or where none is.
    std::optional<Aligned> best_part(const View& left, const View& right, const std::vector<std::size_t>& other,
                                     const std::string& call)
    {
        const auto key = [&](std::size_t axis) { return std::tuple(call, left.shape[axis], right.shape[axis]); };
        Shape offsets(left.shape.size(), 0), room(left.shape.size(), 0);
        bool is_known = true;
        for (const std::size_t axis : other) {
            const auto known = offsets_.find(key(axis));
            is_known = is_known && known != offsets_.end();
            offsets[axis] = known == offsets_.end() ? 0 : known->second;
            room[axis] = std::max(left.shape[axis], right.shape[axis]) - std::min(left.shape[axis], right.shape[axis]);
        }
        const Aligned plain = cut(left, right, offsets);
        if (is_known && measure_counted(plain).is_near())
            return plain;

        Shape tried(left.shape.size(), 0), best;
        double off = std::numeric_limits<double>::infinity();
        bool is_only = true;
        for (bool is_more = true; is_more && !is_cut();) {
            if (const Apart apart = measure_counted(cut(left, right, tried)); apart.is_near()) {
                is_only = best.empty();
                if (apart.off() < off) {
                    off = apart.off();
                    best = tried;
                }
            }
            is_more = false;
            for (const std::size_t axis : other) {
                if (tried[axis]++ < room[axis]) {
                    is_more = true;
                    break;
                }
                tried[axis] = 0;
            }
        }
        if (best.empty())
            return is_known ? std::optional(plain) : std::nullopt;
        if (is_only)
            for (const std::size_t axis : other)
                offsets_.emplace(key(axis), best[axis]);
        return cut(left, right, best);
    }

    /// The same numbers with axes merged or split, after those of the array with more of them have another order.
    std::optional<Aligned> reshaped(const Array& a, const Array& b)
    {
        const bool is_a_finer = a.rank() > b.rank();
        const Array& finer = is_a_finer ? a : b;
        const Array& other = is_a_finer ? b : a;
        if (finer.rank() > most_axes)
            return std::nullopt;
        Axes order = counted(finer.rank());
        do {
            const View left = view_of(finer, order);
            View right = view_of(other, counted(other.rank())); // in the finer one's shape
            right.shape = left.shape;
            right.strides.assign(left.shape.size(), 1);
            for (std::size_t i = left.shape.size() - 1; i-- > 0;)
                right.strides[i] = right.strides[i + 1] * left.shape[i + 1];
            right.axes.clear();
            Aligned both = is_a_finer ? Aligned{left, right} : Aligned{right, left};
            if (measure_counted(both).is_near())
                return both;
        } while (std::next_permutation(order.begin(), order.end()));
        return std::nullopt;
    }

    Offsets offsets_;
    double work_ = 0;
};

// ------------------------------------------------------------------------------------------------ names

std::vector<std::string_view> words_of(std::string_view name)
{
    std::vector<std::string_view> words;
    while (true) {
        const std::size_t dot = name.find('.');
        words.push_back(name.substr(0, dot));
        if (dot == std::string_view::npos)
            return words;
        name.remove_prefix(dot + 1);
    }
}

bool is_number(std::string_view word)
{
    return !word.empty() && std::ranges::all_of(word, [](char c) { return c >= '0' && c <= '9'; });
}

/// "call2" of a module's second call, and "attention#2" of a function's.
bool is_call(std::string_view word) { return word.starts_with("call") && is_number(word.substr(4)); }

std::string_view without_count(std::string_view word)
{
    const std::size_t hash = word.find('#');
    return hash != std::string_view::npos && is_number(word.substr(hash + 1)) ? word.substr(0, hash) : word;
}

/// A name split into what it says of the place in the program and of the call: "call2.h.0.att" is "h.0.att" in "call2".
struct Name {
    explicit Name(const std::string& name)
    {
        const std::vector<std::string_view> words = words_of(name);
        for (std::size_t i = 0; i < words.size(); ++i) {
            const bool is_last = std::all_of(words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end(), is_call);
            if (is_call(words[i])) {
                call += std::string(words[i]) + ".";
                continue;
            }
            const std::string_view plain = is_last ? words[i] : without_count(words[i]);
            if (plain != words[i])
                call += std::string(words[i]) + ".";
            place += (place.empty() ? "" : ".") + std::string(plain);
            series += (series.empty() ? "" : ".") + std::string(without_count(plain));
            if (!is_number(plain))
                (unnumbered += unnumbered.empty() ? "" : ".") += std::string(without_count(plain));
            else
                numbers += std::string(plain) + ".";
        }
    }

    /// True where both are of one place, and the loops around it are the other's, or more: "0.3." of step 0, layer 3 has "3.".
    bool is_in_loop_of(const Name& other) const
    {
        return unnumbered == other.unnumbered && (numbers.ends_with(other.numbers) || other.numbers.ends_with(numbers));
    }

    std::string place, call;
    std::string series;              ///< its place without the number of the assignment
    std::string unnumbered, numbers; ///< that without the numbers of layers and loops, and those
};

// ------------------------------------------------------------------------------------------------ pairs

class Pairer {
public:
    Pairer(const RecordedRun& a, const RecordedRun& b)
        : a_(a), b_(b), is_a_paired_(a.arrays.size()), is_b_paired_(b.arrays.size())
    {
        for (const auto& [name, array] : a.arrays)
            a_names_.emplace_back(name);
        for (const auto& [name, array] : b.arrays)
            b_names_.emplace_back(name);
    }

    Pairings pairs()
    {
        by_name();
        by_place();
        by_end();
        by_numbers();
        const auto distinct = [&](std::size_t Pairing::*side) {
            std::set<std::size_t> all;
            for (const Pairing& pair : pairs_)
                all.insert(pair.*side);
            return all.size();
        };
        const bool is_b_longer = distinct(&Pairing::b) > distinct(&Pairing::a);
        std::ranges::sort(pairs_, {}, [&](const Pairing& one) {
            return is_b_longer ? std::pair(one.b, one.a) : std::pair(one.a, one.b);
        });
        return {std::move(pairs_), search_.is_cut()};
    }

private:
    const Array& a_at(std::size_t i) const { return a_.arrays[i].second; }
    const Array& b_at(std::size_t j) const { return b_.arrays[j].second; }

    /// The call of both: a part of one call is not the part of another.
    std::string call_of(std::size_t a, std::size_t b) const { return a_names_[a].call + " " + b_names_[b].call; }

    void pair(std::size_t a, std::size_t b, std::string how, std::optional<Aligned> aligned)
    {
        pairs_.push_back({a, b, std::move(how), std::move(aligned)});
        is_a_paired_[a] = is_b_paired_[b] = true;
    }

    void by_name()
    {
        std::map<std::string_view, std::size_t> places;
        for (std::size_t j = 0; j < b_names_.size(); ++j)
            places.emplace(b_.arrays[j].first, j);
        const std::set<std::string> uneven = uneven_series();
        const auto each = [&](bool is_uneven) {
            for (std::size_t i = 0; i < a_names_.size(); ++i) {
                const auto found = places.find(a_.arrays[i].first);
                const std::string series = a_names_[i].call + a_names_[i].series;
                if (found != places.end() && uneven.contains(series) == is_uneven && !is_a_paired_[i] &&
                    !is_b_paired_[found->second])
                    pair(i, found->second, "by name",
                         search_.align(a_at(i), b_at(found->second), call_of(i, found->second)));
            }
        };
        each(false);
        pair_near_ones(uneven);
        each(true);
    }

    /// What one run assigns more often than the other: x, x#2 and x, x#2, x#3. Their numbers say which is which.
    std::set<std::string> uneven_series() const
    {
        std::map<std::string, int> balance;
        for (const Name& name : a_names_)
            ++balance[name.call + name.series];
        for (const Name& name : b_names_)
            --balance[name.call + name.series];
        std::set<std::string> uneven;
        for (const auto& [series, count] : balance)
            if (count != 0)
                uneven.insert(series);
        return uneven;
    }

    void pair_near_ones(const std::set<std::string>& series)
    {
        for (std::size_t i = 0; i < a_names_.size(); ++i)
            for (std::size_t j = 0; j < b_names_.size() && !is_a_paired_[i]; ++j) {
                const bool is_one = !is_b_paired_[j] && a_names_[i].series == b_names_[j].series &&
                                    a_names_[i].call == b_names_[j].call &&
                                    series.contains(a_names_[i].call + a_names_[i].series);
                if (is_one)
                    pair_if_near(i, j);
            }
    }

    bool pair_if_near(std::size_t i, std::size_t j)
    {
        auto aligned = search_.align(a_at(i), b_at(j), call_of(i, j));
        const bool is_near = aligned && measure(*aligned).is_near();
        if (is_near)
            pair(i, j, "by its place", std::move(aligned));
        return is_near;
    }

    /// One that the other run has for another call, for another round of a loop, or for all at once.
    void by_place()
    {
        const auto is_same_place = [&](std::size_t i, std::size_t j) {
            return a_names_[i].call != b_names_[j].call && a_names_[i].place == b_names_[j].place;
        };
        const auto is_in_loop = [&](std::size_t i, std::size_t j) {
            return a_names_[i].numbers != b_names_[j].numbers && a_names_[i].is_in_loop_of(b_names_[j]);
        };
        pair_unpaired(is_same_place);
        pair_unpaired(is_in_loop);
    }

    /// Pairs what has no pair with the first of its candidates that is near; with the only one in any case.
    template <class IsCandidate>
    void pair_unpaired(const IsCandidate& is_candidate)
    {
        const auto each = [&](std::vector<bool>& is_paired, std::size_t others, const auto& ordered) {
            for (std::size_t own = 0; own < is_paired.size(); ++own) {
                std::vector<std::size_t> candidates;
                for (std::size_t other = 0; other < others && !is_paired[own]; ++other)
                    if (std::apply(is_candidate, ordered(own, other)))
                        candidates.push_back(other);
                bool is_found = false;
                for (std::size_t k = 0; k < candidates.size() && !is_found; ++k)
                    is_found = std::apply([&](std::size_t i, std::size_t j) { return pair_if_near(i, j); },
                                          ordered(own, candidates[k]));
                if (!is_found && candidates.size() == 1) {
                    const auto [i, j] = ordered(own, candidates[0]);
                    if (auto aligned = search_.align(a_at(i), b_at(j), call_of(i, j)))
                        pair(i, j, "by its place", std::move(aligned));
                }
            }
        };
        each(is_b_paired_, a_names_.size(), [](std::size_t own, std::size_t other) { return std::pair(other, own); });
        each(is_a_paired_, b_names_.size(), [](std::size_t own, std::size_t other) { return std::pair(own, other); });
    }

    /// The only ones left whose names end in the same words, and that fit.
    void by_end()
    {
        constexpr std::size_t most_words = 8;
        for (std::size_t words = most_words; words > 0; --words) {
            std::map<std::string, std::vector<std::size_t>> a_ends, b_ends;
            collect_ends(a_.arrays, is_a_paired_, words, a_ends);
            collect_ends(b_.arrays, is_b_paired_, words, b_ends);
            for (const auto& [end, lefts] : a_ends) {
                const auto rights = b_ends.find(end);
                if (rights == b_ends.end() || lefts.size() != 1 || rights->second.size() != 1)
                    continue;
                auto aligned =
                    search_.align(a_at(lefts[0]), b_at(rights->second[0]), call_of(lefts[0], rights->second[0]));
                const bool is_fit = aligned && (!aligned->is_part || measure(*aligned).is_near());
                if (is_fit)
                    pair(lefts[0], rights->second[0], "by the end of its name", std::move(aligned));
            }
        }
    }

    static void collect_ends(const std::vector<std::pair<std::string, Array>>& arrays,
                             const std::vector<bool>& is_paired, std::size_t count,
                             std::map<std::string, std::vector<std::size_t>>& ends)
    {
        for (std::size_t i = 0; i < arrays.size(); ++i) {
            const std::vector<std::string_view> words = words_of(arrays[i].first);
            if (is_paired[i] || words.size() < count)
                continue;
            std::string end;
            for (std::size_t k = words.size() - count; k < words.size(); ++k)
                end += "." + std::string(words[k]);
            ends[end].push_back(i);
        }
    }

    void by_numbers()
    {
        for (std::size_t i = 0; i < a_names_.size(); ++i)
            for (std::size_t j = 0; j < b_names_.size() && !is_a_paired_[i]; ++j)
                pair_by_numbers(i, j);
        for (std::size_t j = 0; j < b_names_.size(); ++j)
            for (std::size_t i = 0; i < a_names_.size() && !is_b_paired_[j]; ++i)
                pair_by_numbers(i, j);
    }

    void pair_by_numbers(std::size_t i, std::size_t j)
    {
        if (auto found = search_.find(a_at(i), b_at(j), call_of(i, j)))
            pair(i, j, "by its numbers", std::move(found));
    }

    const RecordedRun &a_, &b_;
    std::vector<Name> a_names_, b_names_;
    std::vector<bool> is_a_paired_, is_b_paired_;
    std::vector<Pairing> pairs_;
    Search search_;
};

} // namespace

double Apart::off() const
{
    if (!is_finite)
        return std::numeric_limits<double>::infinity();
    return difference == 0 ? 0 : difference / rms;
}

bool Apart::is_near() const { return off() <= most_off; }

Apart measure(const Aligned& both)
{
    Apart apart;
    double a_squares = 0, b_squares = 0, squares = 0;
    std::size_t unusual = 0, finite = 0;
    walk(both, [&](std::size_t a, std::size_t b) {
        const double left = both.a.array->values[a], right = both.b.array->values[b];
        if (!std::isfinite(left) || !std::isfinite(right)) {
            if (!is_same_unusual(left, right)) {
                apart.worst = apart.is_finite ? apart.count : apart.worst;
                apart.is_finite = false;
                ++unusual;
            }
        } else {
            ++finite;
            a_squares += left * left;
            b_squares += right * right;
            squares += (left - right) * (left - right);
            apart.differing += left != right ? 1 : 0;
        }
        ++apart.count;
        return true;
    });
    apart.differing += unusual;
    if (finite == 0)
        return apart;
    apart.rms = std::sqrt(std::max(a_squares, b_squares) / static_cast<double>(finite));
    apart.difference = std::sqrt(squares / static_cast<double>(finite));
    std::size_t count = 0;
    walk(both, [&](std::size_t a, std::size_t b) {
        const double left = both.a.array->values[a], right = both.b.array->values[b];
        const double size = std::max({std::abs(left), std::abs(right), apart.rms});
        if (std::isfinite(left) && std::isfinite(right) && std::abs(left - right) > apart.largest * size) {
            apart.largest = std::abs(left - right) / size;
            apart.worst = apart.is_finite ? count : apart.worst;
        }
        ++count;
        return true;
    });
    return apart;
}

Shape index_in(const View& view, std::size_t place)
{
    const Shape seen = index_at(place, view.shape);
    if (view.axes.empty()) { // another shape
        std::size_t offset = view.begin;
        for (std::size_t i = 0; i < seen.size(); ++i)
            offset += seen[i] * view.strides[i];
        return index_at(offset, view.array->shape);
    }
    Shape index(view.array->rank(), 0);
    for (std::size_t i = 0; i < seen.size(); ++i)
        if (view.axes[i] < index.size())
            index[view.axes[i]] = seen[i] + view.offsets[i];
    return index;
}

Pairings pair_arrays(const RecordedRun& a, const RecordedRun& b) { return Pairer(a, b).pairs(); }

} // namespace attn::diff
