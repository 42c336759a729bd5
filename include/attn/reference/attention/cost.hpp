#pragma once

#include "attn/reference/attention/restricted.hpp"

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

/// The cost of scaled dot-product attention, from the queries, keys and values of one sequence to the context.
struct AttentionCost {
    std::uint64_t multiplications; ///< or divisions
    std::uint64_t weights;         ///< numbers stored between queries and context: scores that become weights
};

/// @name The cost of attention among n tokens
/// Counted as attn computes them: d_k + d_v per pair, for the score and the average; 2 per score, to scale and to
/// normalise.
/// @see document 001 of docs/sources.md: n^2 for all pairs, n r for those within a window
/// @{
AttentionCost full_attention_cost(std::uint64_t n, std::uint64_t d_k, std::uint64_t d_v); ///< n n pairs
/// A pair per neighbour (a query near an end has fewer of them), a score per query and distance.
AttentionCost restricted_attention_cost(std::uint64_t n, std::uint64_t d_k, std::uint64_t d_v,
                                        const Neighbourhood& neighbourhood);
/// @}

/// The sizes that decide what encoding a sequence costs.
struct EncodingSizes {
    std::uint64_t n;     ///< tokens
    std::uint64_t d_in;  ///< numbers per token
    std::uint64_t d_out; ///< numbers per token of the output
};

/// The cost of encoding a sequence.
struct EncodingCost {
    std::uint64_t multiplications;  ///< or divisions
    std::uint64_t exponentials = 0; ///< evaluations of exp, sigmoid or tanh, each worth many multiplications
};

/// @name The cost of one layer over a sequence
/// Counted as attn computes them, in one direction; a test compares with the multiplications of plain loops.
/// @see document 001 of docs/sources.md: recurrence, convolution and attention as three ways to encode a sequence
/// @{
EncodingCost gru_cost(const EncodingSizes& sizes);  ///< n (3 (d_in + d_out) d_out + 3 d_out)
EncodingCost lstm_cost(const EncodingSizes& sizes); ///< n (4 (d_in + d_out) d_out + 3 d_out)
EncodingCost convolution_cost(const EncodingSizes& sizes, std::uint64_t width); ///< n width d_in d_out
/// 3 n d_in d_out for queries, keys and values, 2 n n d_out for scores and context, 2 n n to scale and to normalise
EncodingCost self_attention_cost(const EncodingSizes& sizes);
/// @}

} // namespace attn
