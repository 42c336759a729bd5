#pragma once

#include "attn/layers/grouped_query.hpp"

namespace attn {

/// The keys and values that attention keeps for later queries.
struct KeyValueCache {
    Matrix keys;   ///< (m, g d_k), of all key/value heads side by side; rotated where positions are rotary
    Matrix values; ///< (m, g d_v)
};

/// What cached_self_attention() gives.
struct CachedMultiHead {
    Matrix output;               ///< (n, d_model), or (n, h d_v) without an output map
    std::vector<Matrix> weights; ///< of each head, (n, m)
    KeyValueCache cache;         ///< of all m tokens, the n new ones among them
};

/// Self-attention of n tokens that follow those in a cache: keys and values are made of the new ones only.
///
/// With a causal mask the output is the one that grouped_query_attention() gives for those tokens of the whole sequence,
/// since no earlier token attends to a later one.
///
/// @param x        (n, d_model): the new tokens
/// @param past     of the tokens before them; none at the beginning
/// @param mask     (n, m), true where a query can attend, m the tokens before and the new ones; optional
/// @param bias     (n, m), added to the scaled scores of all heads; optional
/// @param weights  the packed maps of all heads
/// @param options  as of grouped_query_attention(); rotary positions go on where the cache ends
/// @param trace    | step              | shape        | formula                                   |
///                 |-------------------|--------------|-------------------------------------------|
///                 | x                 | (n, d_model) |                                           |
///                 | past_keys         | (past, h_d_k) |                                          |
///                 | past_values       | (past, h_d_v) |                                          |
///                 | query_weights     | (d_model, h_d_k) |                                       |
///                 | query             | (n, h_d_k)   | x @ query_weights                         |
///                 | key_weights       | (d_model, h_d_k) |                                       |
///                 | key               | (n, h_d_k)   | x @ key_weights                           |
///                 | value_weights     | (d_model, h_d_v) |                                       |
///                 | value             | (n, h_d_v)   | x @ value_weights                         |
///                 | head.0.queries    | (n, d_k)     | query[..., 0:3]                           |
///                 | head.0.new_keys   | (n, d_k)     | key[..., 0:3]                             |
///                 | head.0.keys       | (m, d_k)     | concat(past_keys[..., 0:3], new_keys, axis=0) |
///                 | head.0.new_values | (n, d_v)     | value[..., 0:3]                           |
///                 | head.0.values     | (m, d_v)     | concat(past_values[..., 0:3], new_values, axis=0) |
///                 | head.0.scores     | (n, m)       | queries @ keys.T                          |
///                 | head.0.scaled     | (n, m)       | scores / sqrt(keys.shape[-1])             |
///                 | head.0.weights    | (n, m)       | softmax(scaled)                           |
///                 | head.0.context    | (n, d_v)     | weights @ values                          |
///                 | merged            | (n, h_d_v)   | concat(head.0.context, axis=-1)           |
///                 | output_weights    | (h_d_v, d_model) |                                       |
///                 | output            | (n, d_model) | merged @ output_weights                   |
///                 | cache_keys        | (m, h_d_k)   | concat(head.0.keys, axis=-1)              |
///                 | cache_values      | (m, h_d_v)   | concat(head.0.values, axis=-1)            |
///
///                 with biases, positions and groups as in grouped_query_attention(). Without a past the heads' steps are
///                 its own.
/// @throws ShapeError as grouped_query_attention(), and where the past does not fit the weights
/// @throws Error      as grouped_query_attention()
/// @see Shazeer 2019, section 2.4.1 ("incremental" inference)
CachedMultiHead cached_self_attention(const Matrix& x, const std::optional<KeyValueCache>& past,
                                      const std::optional<AnyMask>& mask, const std::optional<AnyBias>& bias,
                                      const MultiHeadWeights& weights, const GroupedQueryOptions& options = {},
                                      const Trace& trace = {});

/// Cross-attention with keys and values of the memory that were computed before, for every token the same.
///
/// @param x        (n, d_model): queries are made of them
/// @param memory   packed keys (m, h d_k) and values (m, h d_v) of the memory
/// @param mask     (n, m), true where a query can attend; optional
/// @param weights  the packed maps of all heads; those of keys and values are in the memory already
/// @param options  heads, causal or not, scale
/// @param trace    the steps of multi_head_attention() with the inputs `key` and `value` after `x`
/// @throws ShapeError where x, memory, weights and mask disagree, or h does not divide their columns
MultiHead cached_cross_attention(const Matrix& x, const KeyValueCache& memory, const std::optional<AnyMask>& mask,
                                 const MultiHeadWeights& weights, const MultiHeadOptions& options = {},
                                 const Trace& trace = {});

} // namespace attn
