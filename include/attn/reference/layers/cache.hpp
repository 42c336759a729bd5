#pragma once

#include "attn/reference/layers/multi_head.hpp"

#include <type_traits>

namespace attn {

/// The keys and values that attention keeps for later queries, of one sequence or of a batch.
template <Sequence T>
struct KeyValueCacheOf {
    T keys;   ///< ((b,) m, g d_k), of all key/value heads side by side; rotated where positions are rotary
    T values; ///< ((b,) m, g d_v)
};
using KeyValueCache = KeyValueCacheOf<Matrix>;

/// The cache of earlier tokens; none at the beginning.
template <Sequence T>
using PastOfTokens = std::optional<std::type_identity_t<KeyValueCacheOf<T>>>;

/// The results of cached_self_attention().
template <Sequence T>
struct CachedMultiHeadOf {
    T output;                        ///< ((b,) n, d_model), or ((b,) n, h d_v) without an output map
    std::vector<T> weights;          ///< of each head, ((b,) n, m)
    KeyValueCacheOf<Value<T>> cache; ///< of all m tokens, the n new ones among them
};
using CachedMultiHead = CachedMultiHeadOf<Matrix>;

/// Self-attention of n tokens that follow those in a cache: keys and values are computed for the new tokens only.
///
/// With a causal mask the output is the one that multi_head_attention() gives for those tokens of the whole sequence,
/// since no earlier token attends to a later one. (Not with a DynamicScaling or a LongRopeScaling of rotary positions, beyond
/// its original length: keys stay as they were rotated when there were fewer tokens.)
///
/// @param x        ((b,) n, d_model): the new tokens
/// @param past     of the tokens before them; none at the beginning
/// @param weights  the packed maps of all heads
/// @param options  as of multi_head_attention(), m the tokens before and the new ones; rotary positions go on where the
///                 cache ends
/// @param trace    | step              | shape        | formula                                   |
///                 |-------------------|--------------|-------------------------------------------|
///                 | x                 | ((b,) n, d_model) |                                           |
///                 | past_keys         | ((b,) past, h_d_k) |                                          |
///                 | past_values       | ((b,) past, h_d_v) |                                          |
///                 | query_weights     | (d_model, h_d_k) |                                       |
///                 | query             | ((b,) n, h_d_k)   | x @ query_weights                         |
///                 | key_weights       | (d_model, h_d_k) |                                       |
///                 | key               | ((b,) n, h_d_k)   | x @ key_weights                           |
///                 | value_weights     | (d_model, h_d_v) |                                       |
///                 | value             | ((b,) n, h_d_v)   | x @ value_weights                         |
///                 | head.0.queries    | ((b,) n, d_k)     | query[..., 0:3]                           |
///                 | head.0.new_keys   | ((b,) n, d_k)     | key[..., 0:3]                             |
///                 | head.0.keys       | ((b,) m, d_k)     | concat(past_keys[..., 0:3], new_keys, axis=0) |
///                 | head.0.new_values | ((b,) n, d_v)     | value[..., 0:3]                           |
///                 | head.0.values     | ((b,) m, d_v)     | concat(past_values[..., 0:3], new_values, axis=0) |
///                 | head.0.scores     | ((b,) n, m)       | queries @ keys.T                          |
///                 | head.0.scaled     | ((b,) n, m)       | scores / sqrt(keys.shape[-1])             |
///                 | head.0.weights    | ((b,) n, m)       | softmax(scaled)                           |
///                 | head.0.context    | ((b,) n, d_v)     | weights @ values                          |
///                 | merged            | ((b,) n, h_d_v)   | concat(head.0.context, axis=-1)           |
///                 | output_weights    | (h_d_v, d_model) |                                       |
///                 | output            | ((b,) n, d_model) | merged @ output_weights                   |
///                 | cache_keys        | ((b,) m, h_d_k)   | concat(head.0.keys, axis=-1)              |
///                 | cache_values      | ((b,) m, h_d_v)   | concat(head.0.values, axis=-1)            |
///
///                 with biases, positions and groups as in multi_head_attention(). Without a past the heads' steps are
///                 its own.
/// @throws ShapeError as multi_head_attention(), and where the past does not fit the weights
/// @throws Error      as multi_head_attention()
/// @see Shazeer 2019, section 2.4.1 ("incremental" inference)
template <Sequence T>
CachedMultiHeadOf<T> cached_self_attention(const T& x, const PastOfTokens<Value<T>>& past,
                                           const MultiHeadWeights& weights, const MultiHeadOptions& options = {},
                                           const Trace& trace = {});
ATTN_REFUSE_OTHER_TENSORS(cached_self_attention);

/// Cross-attention with keys and values of the memory that were computed before and are the same for every token.
///
/// @param x        (n, d_model): the tokens for the queries
/// @param memory   packed keys (m, h d_k) and values (m, h d_v) of the memory
/// @param weights  the packed maps of all heads; those of keys and values are in the memory already
/// @param options  heads; mask and bias; causal or not; scale
/// @param trace    the steps of multi_head_attention() with the inputs `key` and `value` after `x`
/// @throws ShapeError where x, memory, weights and mask disagree, or h does not divide their columns
template <Sequence T>
MultiHeadOf<T> cached_cross_attention(const T& x, const KeyValueCache& memory, const MultiHeadWeights& weights,
                                      const MultiHeadOptions& options = {}, const Trace& trace = {});
ATTN_REFUSE_OTHER_TENSORS(cached_cross_attention);

} // namespace attn
