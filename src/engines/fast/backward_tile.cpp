// Gradients of a tile of scores. Compiled once per instruction set: Highway includes this file again and again, and
// chooses at run time.
#include "backward_tile.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engines/fast/backward_tile.cpp"
#include "targets.hpp"
#include <hwy/foreach_target.h> // must come before tile-inl.hpp
#include "tile-inl.hpp"

#include <utility>

HWY_BEFORE_NAMESPACE();
namespace attn::fast::HWY_NAMESPACE {

/// Replaces finished scores by weights: exp(score - largest) / sum, or zeros where nothing is allowed.
HWY_INLINE void weigh_row(float largest, float sum, std::size_t columns, float* scores)
{
    exponentials(largest, columns, scores);
    scale_row(sum > 0 ? 1 / sum : 0, columns, scores);
}

/// Replaces the gradients of weights by those of products.
HWY_INLINE void grad_scores_row(float mean_gradient, float scale, std::size_t columns, const float* weights,
                                const float* derivatives, float* gradients)
{
    const Vector mean = hn::Set(lanes, mean_gradient), scales = hn::Set(lanes, scale);
    for (std::size_t j = 0; j < columns; j += width) {
        const Vector of_score = hn::Mul(hn::Load(lanes, weights + j), hn::Sub(hn::Load(lanes, gradients + j), mean));
        Vector of_product = hn::Mul(of_score, scales);
        if (derivatives != nullptr)
            of_product = hn::Mul(of_product, hn::Load(lanes, derivatives + j));
        hn::Store(of_product, lanes, gradients + j);
    }
}

/// From the products of queries and keys to weights.
void recompute_weights(const BackwardTile& tile, const BackwardRows& of, BackwardListener* listener)
{
    const std::size_t columns = padded(tile.columns, panel_columns);
    multiply<false>(Left<false>{tile.queries, padded(tile.d_k, panel_columns)},
                    {tile.keys_by_feature, panel_columns, panel_columns * tile.d_k}, tile.d_k, tile.rows, tile.columns,
                    tile.weights, tile_columns);
    if (listener != nullptr)
        listener->on_part(BackwardPart::products, tile);
    for (std::size_t i = 0; i < tile.rows; ++i)
        finish_row(of.scoring, i, tile.first, tile.columns, tile.weights + i * tile_columns,
                   tile.derivatives + i * tile_columns);
    if (listener != nullptr)
        listener->on_part(BackwardPart::scores, tile);
    for (std::size_t i = 0; i < tile.rows; ++i)
        weigh_row(of.largest[i], of.sum[i], columns, tile.weights + i * tile_columns);
    if (listener != nullptr)
        listener->on_part(BackwardPart::weights, tile);
}

/// The gradients of the weights, then of the products.
void grad_scores(const BackwardTile& tile, const BackwardRows& of, BackwardListener* listener)
{
    const std::size_t columns = padded(tile.columns, panel_columns);
    multiply<false>(Left<false>{tile.grad_context, padded(tile.d_v, panel_columns)},
                    {tile.values_by_feature, panel_columns, panel_columns * tile.d_v}, tile.d_v, tile.rows,
                    tile.columns, tile.grad_scores, tile_columns);
    if (listener != nullptr)
        listener->on_part(BackwardPart::grad_weights, tile);
    for (std::size_t i = 0; i < tile.rows; ++i)
        grad_scores_row(of.mean_gradient[i], of.scoring.scale, columns, tile.weights + i * tile_columns,
                        of.scoring.softcap != 0 ? tile.derivatives + i * tile_columns : nullptr,
                        tile.grad_scores + i * tile_columns);
    if (listener != nullptr)
        listener->on_part(BackwardPart::grad_scores, tile);
}

void backward_tile(const BackwardTile& tile, const BackwardRows& of, BackwardListener* listener)
{
    const std::size_t d_k = padded(tile.d_k, panel_columns), d_v = padded(tile.d_v, panel_columns);
    recompute_weights(tile, of, listener);

    // The rows of the products below are keys; those behind the last one hold no gradients.
    multiply<true>(Left<true>{tile.weights, tile_columns}, {tile.grad_context, d_v, panel_columns}, tile.rows,
                   tile.columns, d_v, tile.grad_values, d_v);
    if (listener != nullptr)
        listener->on_part(BackwardPart::grad_values, tile);

    grad_scores(tile, of, listener);
    multiply<true>(Left<true>{tile.grad_scores, tile_columns}, {tile.queries, d_k, panel_columns}, tile.rows,
                   tile.columns, d_k, tile.grad_keys, d_k);
    if (listener != nullptr)
        listener->on_part(BackwardPart::grad_keys, tile);
    multiply<false>(Left<false>{tile.grad_scores, tile_columns}, {tile.keys, d_k, panel_columns}, tile.columns,
                    tile.rows, d_k, tile.grad_queries, d_k);
}

/// Some rows at once, since each sum waits for its last term.
template <std::size_t rows>
void row_products_of(const float* left, std::size_t left_stride, const float* right, std::size_t right_stride,
                     std::size_t count, float* products)
{
    constexpr hn::CappedTag<float, 1> one;
    hn::Vec<decltype(one)> sums[rows];
    for (std::size_t i = 0; i < rows; ++i)
        sums[i] = hn::Zero(one);
    for (std::size_t k = 0; k < count; ++k)
        for (std::size_t i = 0; i < rows; ++i)
            sums[i] =
                hn::MulAdd(hn::Set(one, left[i * left_stride + k]), hn::Set(one, right[i * right_stride + k]), sums[i]);
    for (std::size_t i = 0; i < rows; ++i)
        products[i] = hn::GetLane(sums[i]);
}

void row_products(const float* left, std::size_t left_stride, const float* right, std::size_t right_stride,
                  std::size_t rows, std::size_t count, float* products)
{
    constexpr std::size_t at_once = 8;
    std::size_t i = 0;
    for (; i + at_once <= rows; i += at_once)
        row_products_of<at_once>(left + i * left_stride, left_stride, right + i * right_stride, right_stride, count,
                                 products + i);
    for (; i < rows; ++i)
        row_products_of<1>(left + i * left_stride, left_stride, right + i * right_stride, right_stride, count,
                           products + i);
}

} // namespace attn::fast::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attn::fast {
namespace {
HWY_EXPORT(backward_tile);
HWY_EXPORT(row_products);

/// Hands out aligned parts of an array, one after the other; without an array it counts.
struct Parts {
    float* numbers;
    std::size_t used = 0;

    float* take(std::size_t count)
    {
        constexpr std::size_t alignment = 64 / sizeof(float);
        const std::size_t first = std::exchange(used, used + padded(count, alignment));
        return numbers == nullptr ? nullptr : numbers + first;
    }
};

/// Keys as rows of a product: whole blocks.
constexpr std::size_t key_rows = padded(tile_columns, block_rows);

BackwardTile laid_out(Parts& parts, std::size_t d_k, std::size_t d_v)
{
    const std::size_t all_k = padded(d_k, panel_columns), all_v = padded(d_v, panel_columns);
    BackwardTile tile{.d_k = d_k, .d_v = d_v};
    tile.keys = parts.take(tile_columns * all_k);
    tile.keys_by_feature = parts.take(tile_columns * d_k);
    tile.values_by_feature = parts.take(tile_columns * d_v);
    tile.grad_keys = parts.take(key_rows * all_k);
    tile.grad_values = parts.take(key_rows * all_v);
    tile.queries = parts.take(tile_rows * all_k);
    tile.grad_context = parts.take(tile_rows * all_v);
    tile.weights = parts.take(tile_rows * tile_columns);
    tile.grad_scores = parts.take(tile_rows * tile_columns);
    tile.derivatives = parts.take(tile_rows * tile_columns);
    tile.grad_queries = parts.take(tile_rows * all_k);
    return tile;
}

} // namespace

std::size_t backward_tile_size(std::size_t d_k, std::size_t d_v)
{
    Parts parts{nullptr};
    laid_out(parts, d_k, d_v);
    return parts.used;
}

BackwardTile backward_tile_in(float* numbers, std::size_t d_k, std::size_t d_v)
{
    std::fill_n(numbers, backward_tile_size(d_k, d_v), 0.F);
    Parts parts{numbers};
    return laid_out(parts, d_k, d_v);
}

void backward_tile(const BackwardTile& tile, const BackwardRows& rows, BackwardListener* listener)
{
    HWY_DYNAMIC_DISPATCH(backward_tile)(tile, rows, listener);
}

void row_products(const float* left, std::size_t left_stride, const float* right, std::size_t right_stride,
                  std::size_t rows, std::size_t count, float* products)
{
    HWY_DYNAMIC_DISPATCH(row_products)(left, left_stride, right, right_stride, rows, count, products);
}

} // namespace attn::fast
#endif
