#pragma once

#include <cstddef>

namespace attn {

/// The sizes that decide what a scoring function costs.
struct ScoringSizes {
    std::size_t n;        ///< queries
    std::size_t m;        ///< keys
    std::size_t d_q;      ///< numbers a query
    std::size_t d_k;      ///< numbers a key
    std::size_t d_hidden; ///< hidden units of the additive score
};

/// What comparing every query with every key takes.
struct ScoringCost {
    std::size_t multiplications; ///< or divisions
    std::size_t tanhs = 0;       ///< evaluations of tanh, each worth many multiplications
};

/// @name The cost of n m scores, weights learned before
/// Counted as attn computes them; a test counts the multiplications of plain loops and compares.
/// @see seed document 002: "close in complexity, but matrix products are much faster"
/// @{
ScoringCost dot_product_cost(const ScoringSizes& sizes);        ///< n m d_k
ScoringCost scaled_dot_product_cost(const ScoringSizes& sizes); ///< n m d_k, and n m to scale
ScoringCost additive_cost(const ScoringSizes& sizes);           ///< n d_q d_hidden + m d_k d_hidden + n m d_hidden
ScoringCost concatenated_cost(const ScoringSizes& sizes);       ///< n m (d_q + d_k) d_hidden + n m d_hidden
ScoringCost bilinear_cost(const ScoringSizes& sizes);           ///< n d_q d_k + n m d_k
/// @}

} // namespace attn
