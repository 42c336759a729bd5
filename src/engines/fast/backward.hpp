#pragma once

#include "attn/engines/fast/attention_backward.hpp"
#include "backward_tile.hpp"
#include "call.hpp"

namespace attn::fast {

/// One call of attention_backward().
struct BackwardCall {
    const Const &queries, &keys, &values;
    const Scoring& scoring;
    const Const& context;
    const SoftmaxSumsView& sums;
    const Const& grad_context;
    const HeadRows<float>&grad_queries, &grad_keys, &grad_values;

    std::size_t heads_per_group() const { return queries.heads() / keys.heads(); }
    std::size_t query_tiles() const { return panels(queries.rows(), tile_rows); }
    std::size_t key_tiles() const { return panels(keys.rows(), tile_columns); }

    /// Where the numbers of a tile's first query are, in (b, h, n).
    std::size_t place(std::size_t b, std::size_t head, std::size_t query_tile) const
    {
        return (b * queries.heads() + head) * queries.rows() + query_tile * tile_rows;
    }
    /// How many queries a tile has.
    std::size_t rows(std::size_t query_tile) const
    {
        return std::min(tile_rows, queries.rows() - query_tile * tile_rows);
    }

    /// Computes D of a tile's queries, and sets their gradients to zeros.
    /// @param D  (b, h, n)
    void begin_queries(std::size_t b, std::size_t head, std::size_t query_tile, float* D) const;

    /// Loads a tile of keys and values, and sets their gradients to zeros.
    void load_keys(BackwardTile& tile, std::size_t b, std::size_t group, std::size_t key_tile) const;

    /// Adds to the gradients of the loaded keys and values what a tile of queries contributes.
    /// @return whether any of these queries can attend to any of these keys; if so, tile.grad_queries is what they get
    bool meet_queries(BackwardTile& tile, std::size_t b, std::size_t head, std::size_t query_tile, const float* D,
                      BackwardListener* listener = nullptr) const;

    /// Adds tile.grad_queries to the gradients.
    void add_grad_queries(const BackwardTile& tile, std::size_t b, std::size_t head, std::size_t query_tile) const;

    /// Writes the gradients of the loaded keys and values.
    void store_keys(const BackwardTile& tile, std::size_t b, std::size_t group) const;
};

/// attention_backward() with a listener: one tile after the other.
void backward_traced(const BackwardCall& call, const Trace& trace);

} // namespace attn::fast
