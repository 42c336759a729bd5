#pragma once

#include <cstdint>

namespace attn {

/// The sizes that decide what a scoring function costs.
struct ScoringSizes {
    std::uint64_t n;        ///< queries
    std::uint64_t m;        ///< keys
    std::uint64_t d_q;      ///< numbers per query
    std::uint64_t d_k;      ///< numbers per key
    std::uint64_t d_hidden; ///< hidden units of the additive score
};

/// The cost of comparing every query with every key.
struct ScoringCost {
    std::uint64_t multiplications; ///< or divisions
    std::uint64_t tanhs = 0;       ///< evaluations of tanh, each worth many multiplications
};

/// @name The cost of n m scores
/// Counted as attn computes them; a test compares with the multiplications of plain loops.
/// @see document 002 of docs/sources.md: "close in complexity, but matrix products are much faster"
/// @{
ScoringCost dot_product_cost(const ScoringSizes& sizes);        ///< n m d_k
ScoringCost scaled_dot_product_cost(const ScoringSizes& sizes); ///< n m d_k, and n m to scale
ScoringCost additive_cost(const ScoringSizes& sizes);           ///< n d_q d_hidden + m d_k d_hidden + n m d_hidden
ScoringCost concatenated_cost(const ScoringSizes& sizes);       ///< n m (d_q + d_k) d_hidden + n m d_hidden
ScoringCost bilinear_cost(const ScoringSizes& sizes);           ///< n d_q d_k + n m d_k
/// @}

} // namespace attn
