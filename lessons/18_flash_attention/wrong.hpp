#pragma once

// What goes wrong in a softmax by tiles: four mistakes, on one row.

#include "../lesson.hpp"
#include "row.hpp"

#include <tuple>

namespace attn {

/// The exponentials of a row, each tile's with a number subtracted that is its own.
/// @param subtracted  per tile: where the trace has that number, and the number
inline Vector
exponentials_by_tiles(const Trace& trace, const Vector& row,
                      const std::vector<Tile>& tiles,
                      const std::vector<std::pair<std::string, double>>& subtracted)
{
    Vector all = xt::zeros<double>(row.shape());
    std::string formula;
    for (std::size_t t = 0; t < tiles.size(); ++t) {
        const auto& [name, largest] = subtracted[t];
        for (std::size_t j = tiles[t].first; j < tiles[t].first + tiles[t].count; ++j)
            all(j) = std::exp(row(j) - largest);
        formula += "exp(row[" + tiles[t].range() + "] - " + name + "), ";
    }
    return trace("exponentials[k]", "concat(" + formula + "axis=0)", all);
}

/// Divided by their sum.
inline Vector weights_of(const Trace& trace, const Vector& exponentials)
{
    return trace("weights[k]", "exponentials / sum(exponentials)",
                 Vector(exponentials / sum_all(exponentials)));
}

/// The first tile is masked: its largest score is minus infinity.
inline void mask_first_tile(const Trace& trace, const Vector& given,
                            const std::vector<Tile>& tiles)
{
    const std::string size = std::to_string(given.size()),
                      count = std::to_string(tiles[0].count);
    Vector hidden = given;
    for (std::size_t j = 0; j < tiles[0].count; ++j)
        hidden(j) = -INFINITY;
    const Vector row = trace(
        "row[k]", "where(arange(" + size + ") >= " + count + ", row, -inf)", hidden);
    const std::string scores = "row[" + tiles[0].range() + "]",
                      later = "row[" + tiles[1].range() + "]";
    const Vector first = part(row, tiles[0]), second = part(row, tiles[1]);
    //! [masked]
    const double largest = trace("largest", "max(" + scores + ")", max_all(first));
    const double sum = trace("sum", "sum(exp(" + scores + " - largest))",
                             sum_of_exponentials(first, largest));
    const double guarded =
        trace("guarded", "sum(where(largest == -inf, 0, exp(" + scores + " - largest)))",
              largest == -INFINITY ? 0.0 : sum_of_exponentials(first, largest));
    //! [masked]
    const std::string shift = "max(" + later + ")";
    const auto after_second = [&](double before) {
        const double m = max_all(second);
        return before * std::exp(largest - m) + sum_of_exponentials(second, m);
    };
    const std::string added =
        " * exp(largest - " + shift + ") + sum(exp(" + later + " - " + shift + "))";
    std::ignore = trace("sum_after", "sum" + added, after_second(sum));
    std::ignore = trace("guarded_after", "guarded" + added, after_second(guarded));
}

/// Each mistake gives weights of the right shape; two of them even sum to 1.
inline void go_wrong(Lesson& lesson, const Vector& row, const std::vector<Tile>& tiles,
                     const MergedTiles& merged, const Vector& right)
{
    const Trace wrong = lesson.trace().scope("wrong");
    std::vector<std::pair<std::string, double>> own, running;
    for (std::size_t t = 0; t < tiles.size(); ++t) {
        own.emplace_back("by_tiles.tile." + std::to_string(t) + ".largest",
                         merged.own[t].largest);
        running.emplace_back("by_tiles." + MergedTiles::name(t) + ".largest",
                             merged.so_far[t].largest);
    }
    const Trace uncorrected = wrong.scope("uncorrected"), alone = wrong.scope("alone"),
                apart = wrong.scope("apart"), masked = wrong.scope("masked");
    //! [uncorrected]
    const Vector without_correction =
        weights_of(uncorrected, exponentials_by_tiles(uncorrected, row, tiles, running));
    //! [uncorrected]
    //! [alone]
    const Vector exponentials = exponentials_by_tiles(alone, row, tiles, own);
    const Vector by_own_largest = weights_of(alone, exponentials);
    //! [alone]
    std::string formula;
    Vector divided = exponentials;
    for (std::size_t t = 0; t < tiles.size(); ++t) {
        for (std::size_t j = tiles[t].first; j < tiles[t].first + tiles[t].count; ++j)
            divided(j) /= merged.own[t].sum;
        formula += "alone.exponentials[" + tiles[t].range() + "] / by_tiles.tile." +
                   std::to_string(t) + ".sum, ";
    }
    divided = apart("weights[k]", "concat(" + formula + "axis=0)", divided);
    std::ignore = apart("sum", "sum(weights)", sum_all(divided));
    std::vector<std::vector<double>> table;
    for (std::size_t j = 0; j < row.size(); ++j)
        table.push_back(
            {row(j), right(j), without_correction(j), by_own_largest(j), divided(j)});
    lesson.table({"score", "right weight", "no correction", "own largest", "own sum"},
                 table);
    if (tiles.size() > 1)
        mask_first_tile(masked, row, tiles);
}

} // namespace attn
