// Attention of a tile of queries. Compiled once per instruction set: Highway includes this file again and again, and chooses
// at run time.
#include "tile.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engines/fast/tile.cpp"
#include "targets.hpp"
#include <hwy/foreach_target.h> // must come before tile-inl.hpp
#include "tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace attn::fast::HWY_NAMESPACE {

/// One tile of keys and values: keys [state.first, state.first + state.columns).
void meet_keys(const TileTask& task, const float* queries, const TileState& state)
{
    const std::size_t rows = padded(task.rows, block_rows), columns = padded(state.columns, panel_columns);
    const std::size_t features = padded(task.d_v, panel_columns);
    TileListener* listener = task.listener;

    // Compare the queries with the keys.
    multiply<false>(Left<false>{queries, task.d_k},
                    {task.packed_keys + state.first * task.d_k, panel_columns, panel_columns * task.d_k}, task.d_k,
                    rows, columns, state.scores, tile_columns);
    if (listener != nullptr)
        listener->on_products(state);
    for (std::size_t i = 0; i < task.rows; ++i)
        finish_row(task.scoring, i, state.first, state.columns, state.scores + i * tile_columns);
    if (listener != nullptr)
        listener->on_scores(state);

    // Where there is a larger score than before, what was summed up is too large by a factor.
    for (std::size_t i = 0; i < task.rows; ++i) {
        state.before[i] = state.largest[i];
        state.largest[i] = std::max(state.before[i], largest_of(state.scores + i * tile_columns, columns));
    }
    if (listener != nullptr)
        listener->on_largest(state);
    for (std::size_t i = 0; i < task.rows; ++i)
        state.correction[i] = state.largest[i] == state.before[i] ? 1 : std::exp(state.before[i] - state.largest[i]);
    if (listener != nullptr)
        listener->on_correction(state);

    // Add the exponentials to the sums, and the values to the contexts.
    for (std::size_t i = 0; i < task.rows; ++i)
        exponentials(state.largest[i], columns, state.scores + i * tile_columns);
    if (listener != nullptr)
        listener->on_exponentials(state);
    for (std::size_t i = 0; i < task.rows; ++i) {
        state.sum[i] = state.sum[i] * state.correction[i] + sum_of(state.scores + i * tile_columns, columns);
        if (state.correction[i] != 1)
            scale_row(state.correction[i], features, state.context + i * features);
    }
    if (listener != nullptr)
        listener->on_sums(state);
    multiply<true>(Left<false>{state.scores, tile_columns},
                   {task.packed_values + state.first * features, panel_columns, panel_columns * tile_columns},
                   state.columns, rows, features, state.context, features);
    if (listener != nullptr)
        listener->on_context(state);
}

void attend_tile(const TileTask& task, float* scratch)
{
    const std::size_t rows = padded(task.rows, block_rows), features = padded(task.d_v, panel_columns);
    TileState state;
    state.scores = scratch; // aligned, and so is each row of tile_columns or of whole panels
    state.context = state.scores + tile_rows * tile_columns;
    float* queries = state.context + tile_rows * features;
    state.largest = queries + tile_rows * task.d_k;
    state.sum = state.largest + tile_rows;
    state.correction = state.sum + tile_rows;
    state.before = state.correction + tile_rows;
    std::fill(state.scores, state.scores + rows * tile_columns, 0.F);
    std::fill(state.context, state.context + rows * features, 0.F);
    std::fill(queries, queries + rows * task.d_k, 0.F);
    std::fill(state.largest, state.largest + rows, no_score);
    std::fill(state.sum, state.sum + rows, 0.F);
    for (std::size_t i = 0; i < task.rows; ++i)
        std::copy_n(task.queries + i * task.query_stride, task.d_k, queries + i * task.d_k);
    const KeyRange all = keys_of_all(task.scoring, task.rows);

    for (state.first = all.first / tile_columns * tile_columns; state.first < all.last; state.first += tile_columns) {
        state.columns = std::min(tile_columns, all.last - state.first);
        if (mask_allows_any(task.scoring, task.rows, state.first, state.columns))
            meet_keys(task, queries, state);
    }

    for (std::size_t i = 0; i < task.rows; ++i) {
        const float factor = state.sum[i] > 0 ? 1 / state.sum[i] : 0;
        const float* from = state.context + i * features;
        float* to = task.context + i * task.context_stride;
        for (std::size_t j = 0; j < task.d_v; ++j)
            to[j] = from[j] * factor;
        if (task.largest != nullptr)
            task.largest[i] = state.largest[i];
        if (task.sum != nullptr)
            task.sum[i] = state.sum[i];
    }
}

} // namespace attn::fast::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attn::fast {
namespace {
HWY_EXPORT(attend_tile);
}

void attend_tile(const TileTask& task, float* scratch) { HWY_DYNAMIC_DISPATCH(attend_tile)(task, scratch); }

void pack_keys(const float* keys, std::size_t stride, std::size_t first, std::size_t m, std::size_t d_k, float* packed)
{
    for (std::size_t panel = 0; panel < tile_columns; panel += panel_columns)
        for (std::size_t j = 0; j < panel_columns; ++j) {
            const std::size_t key = first + panel + j;
            for (std::size_t k = 0; k < d_k; ++k)
                packed[panel * d_k + k * panel_columns + j] = key < m ? keys[key * stride + k] : 0;
        }
}

void pack_values(const float* values, std::size_t stride, std::size_t first, std::size_t m, std::size_t d_v,
                 float* packed)
{
    for (std::size_t panel = 0; panel < padded(d_v, panel_columns); panel += panel_columns)
        for (std::size_t i = 0; i < tile_columns; ++i) {
            float* row = packed + panel * tile_columns + i * panel_columns;
            const std::size_t there = first + i < m ? std::min(panel_columns, d_v - panel) : 0;
            const float* from = values + (first + i) * stride + panel;
            std::copy(from, from + there, row);
            std::fill(row + there, row + panel_columns, 0.F);
        }
}

} // namespace attn::fast
#endif
