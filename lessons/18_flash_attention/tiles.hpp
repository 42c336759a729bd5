#pragma once

// Attention by tiles of keys, there and back, without a row of weights in memory.

#include "row.hpp"

namespace attn {

/// A head of attention under a mask.
struct Head {
    Term<Matrix> queries, keys, values;
    Mask causal; ///< true where a query can attend

    Term<double> root() const { return sqrt(size_along(keys, 1)); }
};

/// The scores of all queries with the keys of a tile.
inline Term<Matrix> compare(const Trace& trace, const Head& head, const Tile& tile)
{
    const Term<Mask> causal(
        Mask(xt::view(head.causal, xt::all(),
                      xt::range(tile.first, tile.first + tile.count))),
        trace.worded("causal[:, " + tile.range() + "]"));
    //! [compare]
    const Term scores =
        trace("scores[n, c]", matmul(head.queries, transpose(part(head.keys, tile))));
    const Term masked =
        trace("masked[n, c]", where(causal, scores / head.root(), minus_infinity));
    //! [compare]
    return masked;
}

/// What is known of each query after some tiles: m, l, and the context times l.
struct Partial {
    Term<Vector> largest, sum;
    Term<Matrix> context;
};

/// One tile of keys and values after the other.
/// @return after the last tile
inline Partial meet_tiles(const Trace& trace, const Head& head,
                          const std::vector<Tile>& tiles)
{
    const std::size_t n = head.queries.shape(0), d_v = head.values.shape(1);
    const Trace start = trace.scope("start");
    Term largest = start.given("largest[n]", Vector({n}, minus_infinity));
    Term sum = start.given("sum[n]", Vector({n}, 0.0));
    Term partial = start.given("partial[n, d_v]", Matrix({n, d_v}, 0.0));
    for (std::size_t t = 0; t < tiles.size(); ++t) {
        const Trace tile = trace.scope("tile", t);
        const Term values = part(head.values, tiles[t]);
        //! [tile]
        const Term largest_before = tile.alias("largest_before", largest);
        const Term sum_before = tile.alias("sum_before", sum);
        const Term partial_before = tile.alias("partial_before", partial);
        const Term masked = compare(tile, head, tiles[t]);
        largest = tile("largest[n]", maximum(max_along(masked, 1), largest_before));
        const Term correction = tile("correction[n]", exp(largest_before - largest));
        const Term exponentials =
            tile("exponentials[n, c]", exp(masked - each_row(largest)));
        sum = tile("sum[n]", sum_before * correction + sum_along(exponentials, 1));
        partial = tile("partial[n, d_v]", partial_before * each_row(correction) +
                                              matmul(exponentials, values));
        //! [tile]
    }
    return {largest, sum, partial};
}

/// What arrives at queries, keys and values.
struct Gradients {
    Term<Matrix> queries, keys, values;
};

/// The way back. The weights are computed again from m and l, tile by tile.
/// @param context   of the forward pass, (n, d_v)
/// @param arriving  the gradient with respect to it
inline Gradients send_back(const Trace& trace, const Head& head, const Partial& forward,
                           const Term<Matrix>& context, const Term<Matrix>& arriving,
                           const std::vector<Tile>& tiles)
{
    const Term largest = trace.alias("largest", forward.largest),
               sum = trace.alias("sum", forward.sum);
    //! [delta]
    const Term delta = trace("delta[n]", sum_along(arriving * context, 1));
    //! [delta]
    const Trace start = trace.scope("start");
    Term grad_queries =
        start.given("grad_queries[n, d_k]", Matrix(head.queries.shape(), 0.0));
    std::vector<Term<Matrix>> all_keys, all_values;
    for (std::size_t t = 0; t < tiles.size(); ++t) {
        const Trace tile = trace.scope("tile", t);
        const Term keys = part(head.keys, tiles[t]), values = part(head.values, tiles[t]);
        //! [back]
        const Term before = tile.alias("grad_queries_before", grad_queries);
        const Term masked = compare(tile, head, tiles[t]);
        const Term weights =
            tile("weights[n, c]", exp(masked - each_row(largest)) / each_row(sum));
        const Term grad_values =
            tile("grad_values[c, d_v]", matmul(transpose(weights), arriving));
        const Term grad_weights =
            tile("grad_weights[n, c]", matmul(arriving, transpose(values)));
        const Term grad_scaled =
            tile("grad_scaled[n, c]", weights * (grad_weights - each_row(delta)));
        const Term grad_keys =
            tile("grad_keys[c, d_k]",
                 matmul(transpose(grad_scaled), head.queries) / head.root());
        grad_queries = tile("grad_queries[n, d_k]",
                            before + matmul(grad_scaled, keys) / head.root());
        //! [back]
        all_keys.push_back(grad_keys);
        all_values.push_back(grad_values);
    }
    const Term grad_keys = trace("grad_keys[m, d_k]", concat(all_keys, 0));
    const Term grad_values = trace("grad_values[m, d_v]", concat(all_values, 0));
    return {trace.alias("grad_queries", grad_queries), grad_keys, grad_values};
}

} // namespace attn
