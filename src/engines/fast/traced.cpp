#include "traced.hpp"

#include "record_layers.hpp"

namespace attn::fast {

TracedTile::TracedTile(const Trace& trace, std::size_t d_v, const ScoreFormulas& formulas)
    : around_(trace), rows_(formulas.rows()), d_v_(d_v), formulas_(formulas)
{
}

void TracedTile::record_tile(std::string_view step, const std::string& formula, const float* numbers,
                             std::size_t columns, std::size_t stride) const
{
    record(*trace_, step, formula, ConstView{numbers, rows_, columns, stride});
}

void TracedTile::record_rows(std::string_view step, const std::string& formula, const float* numbers) const
{
    record(*trace_, step, formula, std::span(numbers, rows_));
}

void TracedTile::on_products(const TileState& state)
{
    const std::size_t tile = state.first / tile_columns;
    if (tiles_.empty()) {
        trace_.emplace(around_.scope("tile", tile));
    } else {
        const std::string before = "tile." + std::to_string(tiles_.back()) + ".";
        trace_.emplace(around_.scope("tile", tile,
                                     {{"largest_before", before + "largest"},
                                      {"sum_before", before + "sum"},
                                      {"partial_before", before + "partial"}}));
    }
    tiles_.push_back(tile);
    const std::string keys = range(state.first, state.columns);
    record_tile("scores[rows, columns]", "queries[" + range(formulas_.first(), rows_) + "] @ keys[" + keys + "].T",
                state.scores, state.columns, tile_columns);
}

void TracedTile::on_scores(const TileState& state)
{
    const auto [step, formula] = formulas_.finished(state.first, state.columns);
    scores_ = step;
    record_tile(step + "[rows, columns]", formula, state.scores, state.columns, tile_columns);
}

void TracedTile::on_largest(const TileState& state)
{
    const std::string here = "max(" + scores_ + ", axis=-1)";
    const bool is_first = tiles_.size() == 1;
    record_rows("largest[rows]", is_first ? here : "where(largest_before > " + here + ", largest_before, " + here + ")",
                state.largest);
}

void TracedTile::on_correction(const TileState& state)
{
    if (tiles_.size() > 1)
        record_rows("correction[rows]", "where(largest_before == largest, 1, exp(largest_before - largest))",
                    state.correction);
}

void TracedTile::on_exponentials(const TileState& state)
{
    record_tile("exponentials[rows, columns]",
                "where(largest[:, None] == -inf, 0, exp(" + scores_ + " - largest[:, None]))", state.scores,
                state.columns, tile_columns);
}

void TracedTile::on_sums(const TileState& state)
{
    const std::string added = "sum(exponentials, axis=-1)";
    record_rows("sum[rows]", tiles_.size() == 1 ? added : "sum_before * correction + " + added, state.sum);
}

void TracedTile::on_context(const TileState& state)
{
    const std::string keys = range(state.first, state.columns);
    const std::string added = "exponentials @ values[" + keys + "]";
    record_tile("partial[rows, d_v]", tiles_.size() == 1 ? added : "partial_before * correction[:, None] + " + added,
                state.context, d_v_, padded(d_v_, panel_columns));
}

std::string TracedTile::context_formula() const
{
    if (tiles_.empty()) // no query can attend to anything
        return zeros_formula(rows_, d_v_);
    const std::string last = "tile." + std::to_string(tiles_.back()) + ".";
    return "where(" + last + "sum[:, None] == 0, 0, " + last + "partial / " + last + "sum[:, None])";
}

} // namespace attn::fast
