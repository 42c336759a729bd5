#pragma once

// Softmax of one row of scores, in two passes, in one pass, and by tiles.

#include "attn/reference/ops/terms.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace attn {

/// What softmax has to know of a set of scores: the largest, m, and the sum l of the
/// exponentials of score - m.
struct Sums {
    Term<double> largest, sum;
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

/// A row's scores that stand in a tile, or a matrix's rows.
template <class T>
Term<T> part(const Term<T>& all, const Tile& tile)
{
    return slice(all, tile.first, tile.first + tile.count);
}

inline Term<Vector> softmax_in_two_passes(const Trace& trace, const Term<Vector>& row)
{
    //! [two_passes]
    const Term largest = trace("largest", max_all(row));
    const Term exponentials = trace("exponentials[k]", exp(row - largest));
    const Term sum = trace("sum", sum_all(exponentials));
    const Term weights = trace("weights[k]", exponentials / sum);
    //! [two_passes]
    return weights;
}

/// One score after the other, each is read once.
/// @param table  gets the number, score, m, correction and l of each key
inline Sums meet_keys_one_by_one(const Trace& trace, const Term<Vector>& scores,
                                 std::vector<std::vector<double>>& table)
{
    const Trace start = trace.scope("start");
    Term largest = start.given("largest", minus_infinity), sum = start.given("sum", 0.0);
    for (std::size_t j = 0; j < scores.size(); ++j) {
        const Trace key = trace.scope("key", j);
        const Term score = row(scores, j);
        //! [one_pass]
        const Term largest_before = key.alias("largest_before", largest);
        const Term sum_before = key.alias("sum_before", sum);
        largest = key("largest", maximum(score, largest_before));
        const Term correction = key("correction", exp(largest_before - largest));
        sum = key("sum", sum_before * correction + exp(score - largest));
        //! [one_pass]
        table.push_back({static_cast<double>(j), *score, *largest, *correction, *sum});
    }
    return {largest, sum};
}

/// m and l of two sets of scores together.
inline Sums merge(const Trace& trace, const Sums& first, const Sums& second)
{
    const Term first_largest = trace.alias("first_largest", first.largest),
               first_sum = trace.alias("first_sum", first.sum),
               second_largest = trace.alias("second_largest", second.largest),
               second_sum = trace.alias("second_sum", second.sum);
    //! [merge]
    const Term largest = trace("largest", maximum(first_largest, second_largest));
    const Term sum = trace("sum", first_sum * exp(first_largest - largest) +
                                      second_sum * exp(second_largest - largest));
    //! [merge]
    return {largest, sum};
}

/// m and l of each tile of a row, and of the tiles so far.
struct MergedTiles {
    std::vector<Sums> own, so_far;
};

/// Each tile by itself, then merged with those before it.
inline MergedTiles merge_tiles(const Trace& trace, const Term<Vector>& row,
                               const std::vector<Tile>& tiles)
{
    MergedTiles all;
    for (std::size_t t = 0; t < tiles.size(); ++t) {
        const Trace tile = trace.scope("tile", t);
        const Term scores = part(row, tiles[t]);
        //! [own]
        const Term largest = tile("largest", max_all(scores));
        const Term sum = tile("sum", sum_all(exp(scores - largest)));
        //! [own]
        all.own.push_back({largest, sum});
    }
    all.so_far.push_back(all.own.front());
    for (std::size_t t = 1; t < tiles.size(); ++t)
        all.so_far.push_back(
            merge(trace.scope("merged", t), all.so_far.back(), all.own[t]));
    return all;
}

} // namespace attn
