#include "backward.hpp"

namespace attn::fast {
namespace {

/// Copies rows [first, first + count) of a head to rows of so many numbers.
void load_rows(const Const& all, std::size_t b, std::size_t head, std::size_t first, std::size_t count, float* to)
{
    const std::size_t stride = padded(all.features(), panel_columns);
    for (std::size_t i = 0; i < count; ++i)
        std::copy_n(all.row(b, head, first + i), all.features(), to + i * stride);
}

void store_rows(const float* from, const HeadRows<float>& all, std::size_t b, std::size_t head, std::size_t first,
                std::size_t count)
{
    const std::size_t stride = padded(all.features(), panel_columns);
    for (std::size_t i = 0; i < count; ++i)
        std::copy_n(from + i * stride, all.features(), all.row(b, head, first + i));
}

} // namespace

void BackwardCall::begin_queries(std::size_t b, std::size_t head, std::size_t query_tile, float* D) const
{
    const std::size_t first = query_tile * tile_rows, count = rows(query_tile);
    row_products(grad_context.row(b, head, first), grad_context.strides[2], context.row(b, head, first),
                 context.strides[2], count, context.features(), D + place(b, head, query_tile));
    for (std::size_t i = 0; i < count; ++i)
        std::fill_n(grad_queries.row(b, head, first + i), queries.features(), 0.F);
}

void BackwardCall::load_keys(BackwardTile& tile, std::size_t b, std::size_t group, std::size_t key_tile) const
{
    tile.first = key_tile * tile_columns;
    tile.columns = std::min(tile_columns, keys.rows() - tile.first);
    load_rows(keys, b, group, tile.first, tile.columns, tile.keys);
    pack_keys(keys.row(b, group, 0), keys.strides[2], tile.first, keys.rows(), tile.d_k, tile.keys_by_feature);
    pack_keys(values.row(b, group, 0), values.strides[2], tile.first, keys.rows(), tile.d_v, tile.values_by_feature);
    std::fill_n(tile.grad_keys, tile.columns * padded(tile.d_k, panel_columns), 0.F);
    std::fill_n(tile.grad_values, tile.columns * padded(tile.d_v, panel_columns), 0.F);
}

bool BackwardCall::meet_queries(BackwardTile& tile, std::size_t b, std::size_t head, std::size_t query_tile,
                                const float* D, BackwardListener* listener) const
{
    const std::size_t first = query_tile * tile_rows;
    tile.rows = rows(query_tile);
    const ScoredRows scored(scoring, queries, keys, b, head, first, tile.rows);
    const KeyRange met = keys_of_all(scored.get(), tile.rows);
    if (met.first >= tile.first + tile.columns || met.last <= tile.first ||
        !mask_allows_any(scored.get(), tile.rows, tile.first, tile.columns))
        return false;
    load_rows(queries, b, head, first, tile.rows, tile.queries);
    load_rows(grad_context, b, head, first, tile.rows, tile.grad_context);
    const std::size_t at = place(b, head, query_tile);
    backward_tile(tile, {scored.get(), &sums.largest[at], &sums.sum[at], D + at}, listener);
    return true;
}

void BackwardCall::add_grad_queries(const BackwardTile& tile, std::size_t b, std::size_t head,
                                    std::size_t query_tile) const
{
    const std::size_t stride = padded(tile.d_k, panel_columns);
    for (std::size_t i = 0; i < tile.rows; ++i) {
        float* to = grad_queries.row(b, head, query_tile * tile_rows + i);
        for (std::size_t k = 0; k < tile.d_k; ++k)
            to[k] += tile.grad_queries[i * stride + k];
    }
}

void BackwardCall::store_keys(const BackwardTile& tile, std::size_t b, std::size_t group) const
{
    store_rows(tile.grad_keys, grad_keys, b, group, tile.first, tile.columns);
    store_rows(tile.grad_values, grad_values, b, group, tile.first, tile.columns);
}

} // namespace attn::fast
