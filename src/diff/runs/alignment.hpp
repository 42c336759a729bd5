#pragma once

#include "attn/core/array.hpp"

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace attn::diff {

using Indices = std::vector<std::size_t>;

/// Some numbers of an array, axis by axis: where each index stands, so that the axes are in any order, merged, split, cut or with
/// their indices in another order. The number at (i, j) is values[axes[0][i] + axes[1][j]].
struct View {
    const Array* array;
    std::vector<Indices> axes = {};

    /// Where the first number is.
    std::size_t first() const;
    /// Which part of the array it is, "[0:1, :5] of B"; empty where it is the whole.
    std::string part_text(const char* run) const;
};

/// Numbers of two arrays, one for one.
struct Aligned {
    View a, b;

    /// The places in both arrays of each pair of numbers.
    template <class Take>
    void each(const Take& take) const;
};

/// How far apart two aligned arrays are.
struct Apart {
    std::size_t count = 0, differing = 0;
    double rms = 0, difference = 0;       ///< the size of the larger of both; the root mean square of their difference
    double largest = 0;                   ///< the largest difference, over its number or the root mean square
    bool is_finite = true;                ///< false where one has an infinity or NaN that the other does not have
    std::size_t a_worst = 0, b_worst = 0; ///< places in the arrays

    double off() const;
};

Apart measure(const Aligned& both);

/// How large numbers are: their root mean square, without those of a mask, which stand for minus infinity.
double size_of(const std::vector<double>& numbers);

/// Which indices of an axis of one run are which of the other's.
struct Along {
    Indices a, b;
    bool operator==(const Along&) const = default;
};

/// Finds arrays in each other: whole or in part, with axes in another order, merged or split at any depth.
class Search {
public:
    struct Found {
        Aligned aligned;
        double off = 0;
        bool is_odd = false; ///< the plain layout fits and is not near; or a part other than what is known
    };
    enum class Cut { larger, either }; ///< of which a part can be what they have in common

    /// The nearest layout that is off by no more than that.
    /// @param call  what the part depends on besides sizes: the calls that the arrays are of
    std::optional<Found> near(const Array& a, const Array& b, const std::string& call, double most_off, Cut cut);

    /// The layout of two arrays that are meant to be the same and are not: their axes in order, parts as known.
    std::optional<Found> plain(const Array& a, const Array& b, const std::string& call);

    /// Learns from two inputs that the rows of a batch, or their tokens, stand elsewhere.
    void learn_rows(const Array& a, const Array& b, const std::string& call);

    /// True where the rows of two arrays are the same in an order that no input has shown.
    bool is_reordered(const Array& a, const Array& b, double most_off);

    /// True where not everything was tried.
    bool is_cut() const { return work_ > most_work; }

private:
    struct Axis {
        std::size_t size, stride;
    };
    struct Trial;
    static constexpr double most_work = 4e9;

    void match(Trial& trial, std::vector<Axis> a, std::vector<Axis> b);
    void pair_axes(Trial& trial, const std::vector<Axis>& a, const std::vector<Axis>& b, Axis x, Axis y,
                   bool is_ordered);
    void leaf(Trial& trial);
    std::optional<Along> rows(const Array& a, const Array& b, double most_off);
    static std::vector<Axis> axes_of(const Array& array, bool without_ones = true);

    std::map<std::tuple<std::string, std::size_t, std::size_t>, std::vector<Along>> known_;
    double work_ = 0;
};

// ------------------------------------------------------------------------------------------------ inline

template <class Take>
void Aligned::each(const Take& take) const
{
    const std::size_t rank = a.axes.size();
    for (const Indices& axis : a.axes)
        if (axis.empty())
            return;
    std::vector<std::size_t> state(3 * rank + 2, 0);
    std::size_t *const index = state.data(), *const a_base = index + rank, *const b_base = a_base + rank + 1;
    std::size_t axis = 0;
    while (true) {
        for (; axis < rank; ++axis) { // the outer axes give where the inner ones begin
            a_base[axis + 1] = a_base[axis] + a.axes[axis][index[axis]];
            b_base[axis + 1] = b_base[axis] + b.axes[axis][index[axis]];
        }
        if (!take(a_base[rank], b_base[rank]))
            return;
        while (axis > 0 && ++index[axis - 1] == a.axes[axis - 1].size())
            index[--axis] = 0;
        if (axis == 0)
            return;
        --axis;
    }
}

} // namespace attn::diff
