// What the kernels of tile.cpp and backward_tile.cpp have in common. Highway includes it once per instruction set.
#if defined(ATTN_FAST_TILE_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTN_FAST_TILE_INL_HPP
#undef ATTN_FAST_TILE_INL_HPP
#else
#define ATTN_FAST_TILE_INL_HPP
#endif

#include "tile.hpp"

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

/// The left side of a product, row-major; transposed, its rows are what lies side by side.
template <bool is_transposed>
struct Left {
    const float* numbers;
    std::size_t stride;

    HWY_INLINE const float* row(std::size_t i) const { return numbers + i * (is_transposed ? 1 : stride); }
    HWY_INLINE float at(std::size_t i, std::size_t k) const
    {
        return is_transposed ? numbers[k * stride + i] : numbers[i * stride + k];
    }
    HWY_INLINE Left from(std::size_t i) const { return {row(i), stride}; }
};

/// The right side of a product, in panels of panel_columns.
struct Right {
    const float* numbers;
    std::size_t stride;       ///< from row to row
    std::size_t panel_stride; ///< from panel to panel
};

/// c (kernel_rows, kernel_columns) = [c +] a (kernel_rows, depth) @ b (depth, kernel_columns)
template <bool adds, bool is_transposed>
HWY_INLINE void multiply_kernel(const Left<is_transposed> a, const float* HWY_RESTRICT b, std::size_t b_stride,
                                std::size_t depth, float* HWY_RESTRICT c, std::size_t c_stride)
{
    Vector sums[kernel_rows][kernel_vectors];
    HWY_UNROLL(16)
    for (std::size_t i = 0; i < kernel_rows; ++i)
        HWY_UNROLL(2)
    for (std::size_t v = 0; v < kernel_vectors; ++v)
        sums[i][v] = adds ? hn::LoadU(lanes, c + i * c_stride + v * width) : hn::Zero(lanes);
    for (std::size_t k = 0; k < depth; ++k) {
        const Vector first = hn::Load(lanes, b + k * b_stride), second = hn::Load(lanes, b + k * b_stride + width);
        HWY_UNROLL(16)
        for (std::size_t i = 0; i < kernel_rows; ++i) {
            const Vector factor = hn::Set(lanes, a.at(i, k));
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

/// c (rows, columns) = [c +] a (rows, depth) @ b (depth, columns). It computes whole blocks of kernel_rows and whole
/// panels.
template <bool adds, bool is_transposed>
void multiply(const Left<is_transposed> a, const Right& b, std::size_t depth, std::size_t rows, std::size_t columns,
              float* c, std::size_t c_stride)
{
    for (std::size_t panel = 0; panel * panel_columns < columns; ++panel)
        for (std::size_t i = 0; i < rows; i += kernel_rows)
            for (std::size_t j = 0; j < panel_columns; j += kernel_columns)
                multiply_kernel<adds>(a.from(i), b.numbers + panel * b.panel_stride + j, b.stride, depth,
                                      c + i * c_stride + panel * panel_columns + j, c_stride);
}

/// Limits scores, and gives the derivative at each, 1 - tanh^2, where it is asked for.
inline void cap_scores(float softcap, std::size_t from, std::size_t to, float* scores, float* derivatives)
{
    for (std::size_t j = from; j < to; ++j) {
        const float limited = std::tanh(scores[j] / softcap);
        scores[j] = softcap * limited;
        if (derivatives != nullptr)
            derivatives[j] = 1 - limited * limited;
    }
}

/// Scales the scores of one row with the keys [first, first + columns), adds what depends on positions, and sets those
/// to -inf that are not allowed.
/// @param derivatives  of the softcap at each score, are written where they are given
HWY_INLINE void finish_row(const TileScoring& scoring, std::size_t row, std::size_t first, std::size_t columns,
                           float* scores, float* derivatives = nullptr)
{
    const std::size_t end = first + columns;
    const std::size_t from = std::clamp(scoring.keys[row].first, first, end) - first;
    const std::size_t to = std::clamp(scoring.keys[row].last, first + from, end) - first;
    const Vector scale = hn::Set(lanes, scoring.scale);
    for (std::size_t j = 0; j < columns; j += width)
        hn::Store(hn::Mul(hn::Load(lanes, scores + j), scale), lanes, scores + j);
    if (scoring.softcap != 0)
        cap_scores(scoring.softcap, from, to, scores, derivatives);
    if (scoring.slope != 0)
        for (std::size_t j = from; j < to; ++j)
            scores[j] -=
                scoring.slope * static_cast<float>(std::abs(scoring.positions[row] - static_cast<long>(first + j)));
    if (scoring.bias != nullptr)
        for (std::size_t j = from; j < to; ++j)
            scores[j] += scoring.bias[row * scoring.bias_stride + first + j];
    if (scoring.mask != nullptr)
        for (std::size_t j = from; j < to; ++j)
            if (!scoring.mask[row * scoring.mask_stride + first + j])
                scores[j] = no_score;
    std::fill(scores, scores + from, no_score);
    std::fill(scores + to, scores + padded(columns, panel_columns), no_score);
}

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

} // namespace attn::fast::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
