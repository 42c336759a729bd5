#pragma once

// Softmax of one row of scores, in two passes, in one pass, and by tiles.

#include "attn/core/tensor.hpp"
#include "attn/core/trace.hpp"
#include "attn/reference/ops/reduce.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace attn {

/// What softmax has to know of a set of scores: the largest, m, and the sum l of the
/// exponentials of score - m.
struct Sums {
    double largest = -INFINITY, sum = 0;
};

/// Some scores of a row that follow each other, or some keys.
struct Tile {
    std::size_t first, count;

    /// As a formula has them: 2:4
    std::string range() const
    {
        return std::to_string(first) + ":" + std::to_string(first + count);
    }
};

/// All of so many, by tiles of a size; the last one can be smaller.
inline std::vector<Tile> tiles_of(std::size_t all, std::size_t size)
{
    std::vector<Tile> tiles;
    for (std::size_t first = 0; first < all; first += size)
        tiles.push_back({first, std::min(size, all - first)});
    return tiles;
}

inline Vector part(const Vector& row, const Tile& tile)
{
    return xt::view(row, xt::range(tile.first, tile.first + tile.count));
}

inline double sum_of_exponentials(const Vector& row, double largest)
{
    return sum_all(Vector(xt::exp(row - largest)));
}

inline Vector softmax_in_two_passes(const Trace& trace, const Vector& row)
{
    //! [two_passes]
    const double largest = trace("largest", "max(row)", max_all(row));
    const Vector exponentials =
        trace("exponentials[k]", "exp(row - largest)", Vector(xt::exp(row - largest)));
    const double sum = trace("sum", "sum(exponentials)", sum_all(exponentials));
    const Vector weights =
        trace("weights[k]", "exponentials / sum", Vector(exponentials / sum));
    //! [two_passes]
    return weights;
}

/// One score after the other, each is read once.
/// @param rows  gets the number, score, m, correction and l of each key
inline Sums meet_keys_one_by_one(const Trace& trace, const Vector& row,
                                 std::vector<std::vector<double>>& rows)
{
    const Trace start = trace.scope("start");
    double largest = start("largest", "", double{-INFINITY}), sum = start("sum", "", 0.0);
    std::string before = "start.";
    for (std::size_t j = 0; j < row.size(); ++j) {
        const Trace key = trace.scope(
            "key", j,
            {{"largest_before", before + "largest"}, {"sum_before", before + "sum"}});
        const std::string score = "row[" + std::to_string(j) + "]";
        //! [one_pass]
        const double largest_before = largest;
        largest =
            key("largest",
                "where(" + score + " > largest_before, " + score + ", largest_before)",
                std::max(row(j), largest_before));
        const double correction = key("correction", "exp(largest_before - largest)",
                                      std::exp(largest_before - largest));
        sum = key("sum", "sum_before * correction + exp(" + score + " - largest)",
                  sum * correction + std::exp(row(j) - largest));
        //! [one_pass]
        rows.push_back({static_cast<double>(j), row(j), largest, correction, sum});
        before = "key." + std::to_string(j) + ".";
    }
    return {largest, sum};
}

/// m and l of two sets of scores together.
inline Sums merge(const Trace& trace, const Sums& first, const Sums& second)
{
    //! [merge]
    const double largest = trace(
        "largest", "where(first_largest > second_largest, first_largest, second_largest)",
        std::max(first.largest, second.largest));
    const double sum = trace("sum",
                             "first_sum * exp(first_largest - largest) + "
                             "second_sum * exp(second_largest - largest)",
                             first.sum * std::exp(first.largest - largest) +
                                 second.sum * std::exp(second.largest - largest));
    //! [merge]
    return {largest, sum};
}

/// m and l of each tile of a row, and of the tiles so far.
struct MergedTiles {
    std::vector<Sums> own, so_far;

    /// Where the trace has those of the tiles up to t.
    static std::string name(std::size_t t)
    {
        return (t == 0 ? "tile." : "merged.") + std::to_string(t);
    }
};

/// Each tile by itself, then merged with those before it.
inline MergedTiles merge_tiles(const Trace& trace, const Vector& row,
                               const std::vector<Tile>& tiles)
{
    MergedTiles all;
    for (std::size_t t = 0; t < tiles.size(); ++t) {
        const Trace tile = trace.scope("tile", t);
        const std::string scores = "row[" + tiles[t].range() + "]";
        //! [own]
        const Vector own = part(row, tiles[t]);
        const double largest = tile("largest", "max(" + scores + ")", max_all(own));
        const double sum = tile("sum", "sum(exp(" + scores + " - largest))",
                                sum_of_exponentials(own, largest));
        //! [own]
        all.own.push_back({largest, sum});
    }
    all.so_far.push_back(all.own.front());
    for (std::size_t t = 1; t < tiles.size(); ++t) {
        const std::string first = MergedTiles::name(t - 1),
                          second = "tile." + std::to_string(t);
        const Trace merged = trace.scope("merged", t,
                                         {{"first_largest", first + ".largest"},
                                          {"first_sum", first + ".sum"},
                                          {"second_largest", second + ".largest"},
                                          {"second_sum", second + ".sum"}});
        all.so_far.push_back(merge(merged, all.so_far.back(), all.own[t]));
    }
    return all;
}

} // namespace attn
