// Attention of a tile of queries. Compiled once per instruction set: Highway includes this file again and again, and chooses
// at run time.
#include "tile.hpp"

// The targets for long vectors of unknown length have no arrays of vectors.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fast/tile.cpp"
#include <hwy/foreach_target.h> // must come before highway.h
#include <hwy/highway.h>
#include <hwy/contrib/math/math-inl.h>

#include <algorithm>
#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace attn::fast::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Lanes = hn::CappedTag<float, 16>;
using Vector = hn::Vec<Lanes>;
constexpr Lanes lanes;
constexpr std::size_t width = hn::MaxLanes(Lanes());

// As many sums at once as there are registers for.
constexpr std::size_t kernel_vectors = 2, kernel_rows = width >= 16 ? block_rows : block_rows / 2;
constexpr std::size_t kernel_columns = kernel_vectors * width;
static_assert(panel_columns % kernel_columns == 0);

/// A product of row-major matrices: c (kernel_rows, kernel_columns) = [c +] a (kernel_rows, depth) @ b (depth, …), where b is a
/// part of a panel.
template <bool adds>
HWY_INLINE void multiply_kernel(const float* HWY_RESTRICT a, std::size_t a_stride, const float* HWY_RESTRICT b,
                                std::size_t depth, float* HWY_RESTRICT c, std::size_t c_stride)
{
    Vector sums[kernel_rows][kernel_vectors];
    HWY_UNROLL(16)
    for (std::size_t i = 0; i < kernel_rows; ++i)
        HWY_UNROLL(2)
    for (std::size_t v = 0; v < kernel_vectors; ++v)
        sums[i][v] = adds ? hn::LoadU(lanes, c + i * c_stride + v * width) : hn::Zero(lanes);
    for (std::size_t k = 0; k < depth; ++k) {
        const Vector first = hn::Load(lanes, b + k * panel_columns),
                     second = hn::Load(lanes, b + k * panel_columns + width);
        HWY_UNROLL(16)
        for (std::size_t i = 0; i < kernel_rows; ++i) {
            const Vector factor = hn::Set(lanes, a[i * a_stride + k]);
            sums[i][0] = hn::MulAdd(factor, first, sums[i][0]);
            sums[i][1] = hn::MulAdd(factor, second, sums[i][1]);
        }
    }
    HWY_UNROLL(16)
    for (std::size_t i = 0; i < kernel_rows; ++i)
        HWY_UNROLL(2)
    for (std::size_t v = 0; v < kernel_vectors; ++v)
        hn::StoreU(sums[i][v], lanes, c + i * c_stride + v * width);
}

/// c (rows, columns) = [c +] a (rows, depth) @ b, with b in panels that lie panel_stride apart.
template <bool adds>
void multiply(const float* a, std::size_t a_stride, const float* b, std::size_t panel_stride, std::size_t depth,
              std::size_t rows, std::size_t columns, float* c, std::size_t c_stride)
{
    for (std::size_t panel = 0; panel * panel_columns < columns; ++panel)
        for (std::size_t i = 0; i < rows; i += kernel_rows)
            for (std::size_t j = 0; j < panel_columns; j += kernel_columns)
                multiply_kernel<adds>(a + i * a_stride, a_stride, b + panel * panel_stride + j, depth,
                                      c + i * c_stride + panel * panel_columns + j, c_stride);
}

/// Scales the scores of one row, adds what depends on positions, and sets those to -inf that are not allowed.
HWY_INLINE void finish_row(const TileTask& task, std::size_t row, const TileState& state)
{
    float* scores = state.scores + row * tile_columns;
    const std::size_t end = state.first + state.columns;
    const std::size_t from = std::clamp(task.keys[row].first, state.first, end) - state.first;
    const std::size_t to = std::clamp(task.keys[row].last, state.first + from, end) - state.first;
    const Vector scale = hn::Set(lanes, task.scale);
    for (std::size_t j = 0; j < state.columns; j += width)
        hn::Store(hn::Mul(hn::Load(lanes, scores + j), scale), lanes, scores + j);
    if (task.softcap != 0)
        for (std::size_t j = from; j < to; ++j)
            scores[j] = task.softcap * std::tanh(scores[j] / task.softcap);
    if (task.slope != 0)
        for (std::size_t j = from; j < to; ++j)
            scores[j] -=
                task.slope * static_cast<float>(std::abs(task.positions[row] - static_cast<long>(state.first + j)));
    if (task.bias != nullptr)
        for (std::size_t j = from; j < to; ++j)
            scores[j] += task.bias[row * task.bias_stride + state.first + j];
    if (task.mask != nullptr)
        for (std::size_t j = from; j < to; ++j)
            if (!task.mask[row * task.mask_stride + state.first + j])
                scores[j] = no_score;
    std::fill(scores, scores + from, no_score);
    std::fill(scores + to, scores + padded(state.columns, panel_columns), no_score);
}

/// The largest score of a row.
HWY_INLINE float largest_of(const float* scores, std::size_t columns)
{
    Vector largest = hn::Set(lanes, no_score);
    for (std::size_t j = 0; j < columns; j += width)
        largest = hn::Max(largest, hn::Load(lanes, scores + j));
    return hn::GetLane(hn::MaxOfLanes(lanes, largest));
}

/// Replaces scores by exp(score - largest), by zeros where nothing is allowed.
HWY_INLINE void exponentials(float largest, std::size_t columns, float* scores)
{
    const Vector shift = hn::Set(lanes, largest == no_score ? 0 : largest);
    for (std::size_t j = 0; j < columns; j += width)
        hn::Store(hn::Exp(lanes, hn::Sub(hn::Load(lanes, scores + j), shift)), lanes, scores + j);
}

HWY_INLINE float sum_of(const float* numbers, std::size_t columns)
{
    Vector sum = hn::Zero(lanes);
    for (std::size_t j = 0; j < columns; j += width)
        sum = hn::Add(sum, hn::Load(lanes, numbers + j));
    return hn::GetLane(hn::SumOfLanes(lanes, sum));
}

HWY_INLINE void scale_row(float factor, std::size_t count, float* row)
{
    const Vector factors = hn::Set(lanes, factor);
    for (std::size_t j = 0; j < count; j += width)
        hn::Store(hn::Mul(hn::Load(lanes, row + j), factors), lanes, row + j);
}

bool allows_any(const TileTask& task, std::size_t first, std::size_t columns)
{
    for (std::size_t row = 0; row < task.rows; ++row) {
        const bool* mask = task.mask + row * task.mask_stride + first;
        if (std::find(mask, mask + columns, true) != mask + columns)
            return true;
    }
    return false;
}

/// One tile of keys and values: keys [state.first, state.first + state.columns).
void meet_keys(const TileTask& task, const float* queries, const TileState& state)
{
    const std::size_t rows = padded(task.rows, block_rows), columns = padded(state.columns, panel_columns);
    const std::size_t features = padded(task.d_v, panel_columns);
    TileListener* listener = task.listener;

    // Compare the queries with the keys.
    multiply<false>(queries, task.d_k, task.packed_keys + state.first * task.d_k, panel_columns * task.d_k, task.d_k,
                    rows, columns, state.scores, tile_columns);
    if (listener != nullptr)
        listener->on_products(state);
    for (std::size_t i = 0; i < task.rows; ++i)
        finish_row(task, i, state);
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
    multiply<true>(state.scores, tile_columns, task.packed_values + state.first * features,
                   panel_columns * tile_columns, state.columns, rows, features, state.context, features);
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
    KeyRange all{task.m, 0};
    for (std::size_t i = 0; i < task.rows; ++i) {
        std::copy_n(task.queries + i * task.query_stride, task.d_k, queries + i * task.d_k);
        if (task.keys[i].first < task.keys[i].last)
            all = {std::min(all.first, task.keys[i].first), std::max(all.last, task.keys[i].last)};
    }

    for (state.first = all.first / tile_columns * tile_columns; state.first < all.last; state.first += tile_columns) {
        state.columns = std::min(tile_columns, all.last - state.first);
        if (task.mask == nullptr || allows_any(task, state.first, state.columns))
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
