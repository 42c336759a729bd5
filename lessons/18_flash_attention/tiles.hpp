#pragma once

// Attention by tiles of keys, there and back, without a row of weights in memory.

#include "row.hpp"

#include "attn/reference/ops/concat.hpp"
#include "attn/reference/ops/matmul.hpp"

namespace attn {

/// A head of attention under a mask.
struct Head {
    Matrix queries, keys, values;
    Mask causal; ///< true where a query can attend

    double root() const { return std::sqrt(static_cast<double>(keys.shape(1))); }
};

inline Matrix rows(const Matrix& x, const Tile& tile)
{
    return xt::view(x, xt::range(tile.first, tile.first + tile.count), xt::all());
}

/// A number per row, as a column.
inline Matrix column(const Vector& numbers)
{
    return xt::view(numbers, xt::all(), xt::newaxis());
}

/// The scores of all queries with the keys of a tile.
inline Matrix compare(const Trace& trace, const Head& head, const Tile& tile)
{
    const Mask causal =
        xt::view(head.causal, xt::all(), xt::range(tile.first, tile.first + tile.count));
    //! [compare]
    const Matrix scores = trace("scores[n, c]", "queries @ keys[" + tile.range() + "].T",
                                matmul(head.queries, transpose(rows(head.keys, tile))));
    const Matrix masked = trace(
        "masked[n, c]",
        "where(causal[:, " + tile.range() + "], scores / sqrt(keys.shape[1]), -inf)",
        Matrix(xt::where(causal, scores / head.root(), -INFINITY)));
    //! [compare]
    return masked;
}

/// What is known of each query after some tiles: m, l, and the context times l.
struct Partial {
    Vector largest, sum;
    Matrix context;
};

/// One tile of keys and values after the other.
/// @return after the last tile
inline Partial meet_tiles(const Trace& trace, const Head& head,
                          const std::vector<Tile>& tiles)
{
    const std::size_t n = head.queries.shape(0), d_v = head.values.shape(1);
    const Trace start = trace.scope("start");
    Vector largest = start("largest[n]", "", Vector(-INFINITY * xt::ones<double>({n})));
    Vector sum = start("sum[n]", "", Vector(xt::zeros<double>({n})));
    Matrix partial = start("partial[n, d_v]", "", Matrix(xt::zeros<double>({n, d_v})));
    std::string before = "start.";
    for (std::size_t t = 0; t < tiles.size(); ++t) {
        const Trace tile = trace.scope("tile", t,
                                       {{"largest_before", before + "largest"},
                                        {"sum_before", before + "sum"},
                                        {"partial_before", before + "partial"}});
        before = "tile." + std::to_string(t) + ".";
        //! [tile]
        const Matrix masked = compare(tile, head, tiles[t]);
        const Vector largest_before = largest;
        largest = tile("largest[n]",
                       "where(max(masked, axis=1) > largest_before, max(masked, axis=1), "
                       "largest_before)",
                       Vector(xt::maximum(max_along(masked, 1), largest_before)));
        const Vector correction = tile("correction[n]", "exp(largest_before - largest)",
                                       Vector(xt::exp(largest_before - largest)));
        const Matrix exponentials =
            tile("exponentials[n, c]", "exp(masked - largest[:, None])",
                 Matrix(xt::exp(masked - column(largest))));
        sum = tile("sum[n]", "sum_before * correction + sum(exponentials, axis=1)",
                   Vector(sum * correction + sum_along(exponentials, 1)));
        const std::string values = "values[" + tiles[t].range() + "]";
        partial = tile("partial[n, d_v]",
                       "partial_before * correction[:, None] + exponentials @ " + values,
                       Matrix(partial * column(correction) +
                              matmul(exponentials, rows(head.values, tiles[t]))));
        //! [tile]
    }
    return {largest, sum, partial};
}

/// What arrives at queries, keys and values.
struct Gradients {
    Matrix queries, keys, values;
};

/// The way back. The weights are computed again from m and l, tile by tile.
/// @param context   of the forward pass, (n, d_v)
/// @param arriving  the gradient with respect to it
inline Gradients send_back(const Trace& trace, const Head& head, const Partial& forward,
                           const Matrix& context, const Matrix& arriving,
                           const std::vector<Tile>& tiles)
{
    //! [delta]
    const Vector delta = trace("delta[n]", "sum(arriving * context, axis=1)",
                               sum_along(Matrix(arriving * context), 1));
    //! [delta]
    const Trace start = trace.scope("start");
    Gradients grad;
    grad.queries = start("grad_queries[n, d_k]", "",
                         Matrix(xt::zeros<double>(head.queries.shape())));
    std::string before = "start.", all_keys, all_values;
    for (std::size_t t = 0; t < tiles.size(); ++t) {
        const Trace tile =
            trace.scope("tile", t, {{"grad_queries_before", before + "grad_queries"}});
        before = "tile." + std::to_string(t) + ".";
        const std::string range = "[" + tiles[t].range() + "]";
        const Matrix keys = rows(head.keys, tiles[t]),
                     values = rows(head.values, tiles[t]);
        //! [back]
        const Matrix masked = compare(tile, head, tiles[t]);
        const Matrix weights =
            tile("weights[n, c]", "exp(masked - largest[:, None]) / sum[:, None]",
                 Matrix(xt::exp(masked - column(forward.largest)) / column(forward.sum)));
        const Matrix grad_values = tile("grad_values[c, d_v]", "weights.T @ arriving",
                                        matmul(transpose(weights), arriving));
        const Matrix grad_weights =
            tile("grad_weights[n, c]", "arriving @ values" + range + ".T",
                 matmul(arriving, transpose(values)));
        const Matrix grad_scaled =
            tile("grad_scaled[n, c]", "weights * (grad_weights - delta[:, None])",
                 Matrix(weights * (grad_weights - column(delta))));
        const Matrix grad_keys =
            tile("grad_keys[c, d_k]", "grad_scaled.T @ queries / sqrt(keys.shape[1])",
                 Matrix(matmul(transpose(grad_scaled), head.queries) / head.root()));
        grad.queries = tile(
            "grad_queries[n, d_k]",
            "grad_queries_before + grad_scaled @ keys" + range + " / sqrt(keys.shape[1])",
            Matrix(grad.queries + matmul(grad_scaled, keys) / head.root()));
        //! [back]
        grad.keys = t == 0 ? grad_keys : concat_rows(grad.keys, grad_keys);
        grad.values = t == 0 ? grad_values : concat_rows(grad.values, grad_values);
        all_keys += before + "grad_keys, ";
        all_values += before + "grad_values, ";
    }
    grad.keys = trace("grad_keys[m, d_k]", "concat(" + all_keys + "axis=0)", grad.keys);
    grad.values =
        trace("grad_values[m, d_v]", "concat(" + all_values + "axis=0)", grad.values);
    return grad;
}

} // namespace attn
