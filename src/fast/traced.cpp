#include "traced.hpp"

#include <utility>

namespace attn::fast {

TracedTile::TracedTile(const Trace& trace, std::size_t rows, std::size_t d_v, TileFormulas formulas)
    : around_(trace), rows_(rows), d_v_(d_v), formulas_(std::move(formulas))
{
}

/// A matrix of the kernel's is a step, and its answer goes on.
void TracedTile::tell(std::string_view step, const std::string& formula, float* numbers, std::size_t columns,
                      std::size_t stride) const
{
    Matrix value(Matrix::shape_type{rows_, columns});
    for (std::size_t i = 0; i < rows_; ++i)
        for (std::size_t j = 0; j < columns; ++j)
            value(i, j) = numbers[i * stride + j];
    const Matrix answer = (*trace_)(step, formula, std::move(value));
    for (std::size_t i = 0; i < rows_; ++i)
        for (std::size_t j = 0; j < columns; ++j)
            numbers[i * stride + j] = static_cast<float>(answer(i, j));
}

void TracedTile::tell(std::string_view step, const std::string& formula, float* numbers) const
{
    Vector value(Vector::shape_type{rows_});
    for (std::size_t i = 0; i < rows_; ++i)
        value(i) = numbers[i];
    const Vector answer = (*trace_)(step, formula, std::move(value));
    for (std::size_t i = 0; i < rows_; ++i)
        numbers[i] = static_cast<float>(answer(i));
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
    const std::string keys = std::to_string(state.first) + ":" + std::to_string(state.first + state.columns);
    tell("scores[rows, columns]", formulas_.queries + " @ keys[" + keys + "].T", state.scores, state.columns,
         tile_columns);
}

void TracedTile::on_scores(const TileState& state)
{
    std::string finished = formulas_.finished(state.first, state.columns);
    scores_ = formulas_.mask ? "masked" : "scaled";
    if (formulas_.mask)
        finished = "where(" + formulas_.mask(state.first, state.columns) + ", " + finished + ", -inf)";
    tell(scores_ + "[rows, columns]", finished, state.scores, state.columns, tile_columns);
}

void TracedTile::on_largest(const TileState& state)
{
    const std::string here = "max(" + scores_ + ", axis=-1)";
    const bool is_first = tiles_.size() == 1;
    tell("largest[rows]", is_first ? here : "where(largest_before > " + here + ", largest_before, " + here + ")",
         state.largest);
}

void TracedTile::on_correction(const TileState& state)
{
    if (tiles_.size() > 1)
        tell("correction[rows]", "where(largest_before == largest, 1, exp(largest_before - largest))",
             state.correction);
}

void TracedTile::on_exponentials(const TileState& state)
{
    tell("exponentials[rows, columns]", "where(largest[:, None] == -inf, 0, exp(" + scores_ + " - largest[:, None]))",
         state.scores, state.columns, tile_columns);
}

void TracedTile::on_sums(const TileState& state)
{
    const std::string added = "sum(exponentials, axis=-1)";
    tell("sum[rows]", tiles_.size() == 1 ? added : "sum_before * correction + " + added, state.sum);
}

void TracedTile::on_context(const TileState& state)
{
    const std::string keys = std::to_string(state.first) + ":" + std::to_string(state.first + state.columns);
    const std::string added = "exponentials @ values[" + keys + "]";
    tell("partial[rows, d_v]", tiles_.size() == 1 ? added : "partial_before * correction[:, None] + " + added,
         state.context, d_v_, padded(d_v_, panel_columns));
}

std::string TracedTile::context_formula() const
{
    if (tiles_.empty()) // no query can attend to anything
        return "reshape(0.0 * arange(" + std::to_string(rows_ * d_v_) + "), " + std::to_string(rows_) + ", " +
               std::to_string(d_v_) + ")";
    const std::string last = "tile." + std::to_string(tiles_.back()) + ".";
    return "where(" + last + "sum[:, None] == 0, 0, " + last + "partial / " + last + "sum[:, None])";
}

} // namespace attn::fast
