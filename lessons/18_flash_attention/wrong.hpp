#pragma once

// What goes wrong in a softmax by tiles: four mistakes, on one row.

#include "../lesson.hpp"
#include "row.hpp"

#include <tuple>

namespace attn {

/// The exponentials of a row, each tile's with a number subtracted that is its own: m of
/// the tiles so far, or of the tile alone.
inline Term<Vector> exponentials_by_tiles(const Trace& trace, const Term<Vector>& row,
                                          const std::vector<Tile>& tiles,
                                          const std::vector<Sums>& sums)
{
    std::vector<Term<Vector>> all;
    for (std::size_t t = 0; t < tiles.size(); ++t)
        all.push_back(exp(part(row, tiles[t]) - sums[t].largest));
    return trace("exponentials[k]", concat(all, 0));
}

/// Divided by their sum.
inline Term<Vector> weights_of(const Trace& trace, const Term<Vector>& exponentials)
{
    return trace("weights[k]", exponentials / sum_all(exponentials));
}

/// The first tile is masked: its largest score is minus infinity.
inline void mask_first_tile(const Trace& trace, const Term<Vector>& given,
                            const std::vector<Tile>& tiles)
{
    const std::string size = std::to_string(given.size()),
                      count = std::to_string(tiles[0].count);
    Vector hidden = *given;
    for (std::size_t j = 0; j < tiles[0].count; ++j)
        hidden(j) = -INFINITY;
    // Terms have no vectors of booleans, and no booleans alone.
    const Term row =
        trace("row[k]", "where(arange(" + size + ") >= " + count + ", row, -inf)",
              Term(hidden));
    const std::string scores = "row[" + tiles[0].range() + "]";
    const Term first = part(row, tiles[0]), second = part(row, tiles[1]);
    //! [masked]
    const Term largest = trace("largest", max_all(first));
    const Term sum = trace("sum", sum_all(exp(first - largest)));
    const Term guarded =
        trace("guarded", "sum(where(largest == -inf, 0, exp(" + scores + " - largest)))",
              *largest == -INFINITY ? number(0, trace) : sum_all(exp(first - largest)));
    //! [masked]
    const auto after_second = [&](const Term<double>& before) {
        const Term m = max_all(second);
        return before * exp(largest - m) + sum_all(exp(second - m));
    };
    std::ignore = trace("sum_after", after_second(sum));
    std::ignore = trace("guarded_after", after_second(guarded));
}

/// Each mistake gives weights of the right shape; two of them even sum to 1.
inline void go_wrong(Lesson& lesson, const Term<Vector>& row,
                     const std::vector<Tile>& tiles, const MergedTiles& merged,
                     const Term<Vector>& right)
{
    const Trace wrong = lesson.trace().scope("wrong");
    const Trace uncorrected = wrong.scope("uncorrected"), alone = wrong.scope("alone"),
                apart = wrong.scope("apart"), masked = wrong.scope("masked");
    //! [uncorrected]
    const Term without_correction = weights_of(
        uncorrected, exponentials_by_tiles(uncorrected, row, tiles, merged.so_far));
    //! [uncorrected]
    //! [alone]
    const Term exponentials = exponentials_by_tiles(alone, row, tiles, merged.own);
    const Term by_own_largest = weights_of(alone, exponentials);
    //! [alone]
    std::vector<Term<Vector>> parts;
    for (std::size_t t = 0; t < tiles.size(); ++t)
        parts.push_back(part(exponentials, tiles[t]) / merged.own[t].sum);
    const Term divided = apart("weights[k]", concat(parts, 0));
    std::ignore = apart("sum", sum_all(divided));
    std::vector<std::vector<double>> table;
    for (std::size_t j = 0; j < row.size(); ++j)
        table.push_back({(*row)(j), (*right)(j), (*without_correction)(j),
                         (*by_own_largest)(j), (*divided)(j)});
    lesson.table({"score", "right weight", "no correction", "own largest", "own sum"},
                 table);
    if (tiles.size() > 1)
        mask_first_tile(masked, row, tiles);
}

} // namespace attn
