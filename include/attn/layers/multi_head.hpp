#pragma once

#include "attn/attention/dot_product.hpp"
#include "attn/layers/linear.hpp"
#include "attn/layers/position.hpp"

#include <vector>

namespace attn {

/// The learned parameters of multi-head attention: the columns of each map are shared out to the heads, in order.
struct MultiHeadWeights {
    LinearWeights query;                      ///< (d_model, h d_k)
    LinearWeights key;                        ///< (d_memory, h d_k), or (d_memory, g d_k) for g key/value heads
    LinearWeights value;                      ///< (d_memory, h d_v), or (d_memory, g d_v)
    std::optional<LinearWeights> output = {}; ///< W^o, (h d_v, d_model); without it the heads stay side by side
};

/// What else than the tokens themselves heads go by.
enum class HeadPositions {
    none,   ///< nothing: positions, if any, are in the tokens
    rotary, ///< queries and keys are turned by their places, see rotary()
    alibi   ///< scores fall with distance, for each head by a slope of its own, see alibi_bias()
};

/// What multi_head_attention() may be told.
struct MultiHeadOptions {
    std::size_t heads = 1;
    std::optional<std::size_t> key_value_heads = {}; ///< g, which divides h: h / g heads in a row share keys and values
    std::optional<AnyMask> mask = {}; ///< (n, m) or (b, n, m), true where a query may attend; the same for all heads
    std::optional<Matrix> bias = {};  ///< (n, m), added to the scaled scores of all heads
    std::optional<double> scale = {}; ///< what scores are multiplied by; 1/sqrt(d_k) unless given
    HeadPositions positions = HeadPositions::none;
    RotaryOptions rotary = {};
};

/// What multi-head attention gives.
template <Sequence T>
struct MultiHeadOf {
    T output;               ///< ((b,) n, d_model), or ((b,) n, h d_v) without an output map
    std::vector<T> weights; ///< of each head, ((b,) n, m)
};
using MultiHead = MultiHeadOf<Matrix>;
using BatchMultiHead = MultiHeadOf<Tensor3>;

/// The queries, keys and values of all heads, side by side.
template <Sequence T>
struct PackedHeadsOf {
    T query; ///< ((b,) n, h d_k)
    T key;   ///< ((b,) m, h d_k)
    T value; ///< ((b,) m, h d_v)
};
using PackedHeads = PackedHeadsOf<Matrix>;
using BatchPackedHeads = PackedHeadsOf<Tensor3>;

/// Multi-head self-attention: several attentions beside each other, each with its own small queries, keys and values.
///
/// One softmax can follow one relation between tokens; several heads follow several. Each works on d_k = d_model / h
/// features, so that all of them together cost about what one large head would.
///
/// @param x        ((b,) n, d_model)
/// @param weights  the packed maps of all heads
/// @param options  heads, mask, bias, scale, positions
/// @param trace    | step             | shape             | formula                                       |
///                 |------------------|-------------------|-----------------------------------------------|
///                 | x                | ((b,) n, d_model) |                                               |
///                 | query_weights    | (d_model, h_d_k)  |                                               |
///                 | query_bias       | (h_d_k,)          |                                               |
///                 | query            | ((b,) n, h_d_k)   | x @ query_weights + query_bias                |
///                 | key_weights      | (d_model, h_d_k)  |                                               |
///                 | key_bias         | (h_d_k,)          |                                               |
///                 | key              | ((b,) m, h_d_k)   | x @ key_weights + key_bias                    |
///                 | value_weights    | (d_model, h_d_v)  |                                               |
///                 | value_bias       | (h_d_v,)          |                                               |
///                 | value            | ((b,) m, h_d_v)   | x @ value_weights + value_bias                |
///                 | head.0.queries   | ((b,) n, d_k)     | query[..., 0:3]                               |
///                 | head.0.keys      | ((b,) m, d_k)     | key[..., 0:3]                                 |
///                 | head.0.values    | ((b,) m, d_v)     | value[..., 0:3]                               |
///                 | head.0.scores    | ((b,) n, m)       | queries @ keys.T                              |
///                 | head.0.scaled    | ((b,) n, m)       | scores / sqrt(keys.shape[-1])                 |
///                 | head.0.weights   | ((b,) n, m)       | softmax(scaled)                               |
///                 | head.0.context   | ((b,) n, d_v)     | weights @ values                              |
///                 | merged           | ((b,) n, h_d_v)   | concat(head.0.context, axis=-1)               |
///                 | output_weights   | (h_d_v, d_model)  |                                               |
///                 | output_bias      | (d_model,)        |                                               |
///                 | output           | ((b,) n, d_model) | merged @ output_weights + output_bias         |
///
///                 with as many heads as asked for; mask and bias as in scaled_dot_product_attention(), named once, in
///                 this scope; without an output map `output` is `merged`. With rotary positions the slices are
///                 `head.0.rotary_query.x` and `head.0.rotary_key.x`, and `head.0.queries` is what comes of turning
///                 them; with ALiBi each head has its `bias`. With g key/value heads fewer than h, the axes h_d_k and
///                 h_d_v of key and value are g_d_k and g_d_v, and heads 0 to h / g - 1 slice the same columns.
/// @throws ShapeError where x and the weights disagree, h or g does not divide their columns, g does not divide h, or
///                    the mask does not fit
/// @see Vaswani et al. 2017, section 3.2.2; Shazeer 2019 for g = 1 (multi-query) and Ainslie et al. 2023 for g between
///      (grouped-query); seed documents 000, 001 and 003
MultiHead multi_head_attention(const Matrix& x, const MultiHeadWeights& weights, const MultiHeadOptions& options = {},
                               const Trace& trace = {});
/// The same for a batch.
BatchMultiHead multi_head_attention(const Tensor3& x, const MultiHeadWeights& weights,
                                    const MultiHeadOptions& options = {}, const Trace& trace = {});

/// Multi-head cross-attention: the tokens of one sequence ask, those of another answer.
///
/// @param x             ((b,) n, d_model): they ask
/// @param memory        ((b,) m, d_memory): keys and values are made of them
/// @param weights       the packed maps of all heads
/// @param options       heads, mask (n, m), bias, scale, positions
/// @param trace         as above, with the input `memory` after `x`, and in its place in the formulas of key and value
/// @throws ShapeError   as above
MultiHead multi_head_attention(const Matrix& x, const Matrix& memory, const MultiHeadWeights& weights,
                               const MultiHeadOptions& options = {}, const Trace& trace = {});
/// The same for a batch.
BatchMultiHead multi_head_attention(const Tensor3& x, const Tensor3& memory, const MultiHeadWeights& weights,
                                    const MultiHeadOptions& options = {}, const Trace& trace = {});

/// The general form: keys from one sequence, values from another of the same length, as PyTorch's (query, key, value).
///
/// @param x             ((b,) n, d_model)
/// @param memory        ((b,) m, d_memory): keys are made of them
/// @param value_memory  ((b,) m, d_value): values are made of them
/// @param weights       the packed maps of all heads
/// @param options       heads, mask (n, m), bias, scale, positions
/// @param trace         as above, with the input `value_memory` after `memory`
/// @throws ShapeError   as above
MultiHead multi_head_attention(const Matrix& x, const Matrix& memory, const Matrix& value_memory,
                               const MultiHeadWeights& weights, const MultiHeadOptions& options = {},
                               const Trace& trace = {});
/// The same for a batch.
BatchMultiHead multi_head_attention(const Tensor3& x, const Tensor3& memory, const Tensor3& value_memory,
                                    const MultiHeadWeights& weights, const MultiHeadOptions& options = {},
                                    const Trace& trace = {});

/// The second half of multi-head attention, on queries, keys and values that are there already, such as those in a cache.
///
/// @param packed   of all heads
/// @param output   W^o; without it the heads stay side by side
/// @param options  heads, mask (n, m), bias, scale, positions
/// @param trace    the steps of multi_head_attention() from the first head on; `query`, `key` and `value` have to be
///                 named by the caller
/// @throws ShapeError   where h does not divide the columns, the output map does not fit them, or the mask does not fit
MultiHead attend_by_heads(const PackedHeads& packed, const std::optional<LinearWeights>& output,
                          const MultiHeadOptions& options = {}, const Trace& trace = {});
/// The same for a batch.
BatchMultiHead attend_by_heads(const BatchPackedHeads& packed, const std::optional<LinearWeights>& output,
                               const MultiHeadOptions& options = {}, const Trace& trace = {});

/// What self-attention keeps of the tokens that it has seen: what later tokens will look at.
struct KeyValueCache {
    Matrix keys;   ///< (m, g d_k), of all key/value heads side by side; turned where positions are rotary
    Matrix values; ///< (m, g d_v)
};

/// What cached_self_attention() gives.
struct CachedMultiHead {
    Matrix output;               ///< (n, d_model), or (n, h d_v) without an output map
    std::vector<Matrix> weights; ///< of each head, (n, m)
    KeyValueCache cache;         ///< of all m tokens, the n new ones among them
};

/// Multi-head self-attention of n tokens that stand behind those in a cache: keys and values are made of the new ones
/// only. With a causal mask the output is the one that multi_head_attention() gives for those tokens of the whole
/// sequence, since no earlier token looks at a later one.
///
/// @param x        (n, d_model): the new tokens
/// @param past     of the tokens before them; none at the beginning
/// @param weights  the packed maps of all heads
/// @param options  as above; the mask is (n, m), m the tokens before and the new ones; rotary positions go on where the
///                 cache ends
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
///                 with biases and positions as above. Without a past the heads' steps are those of
///                 multi_head_attention(), and the cache's two stand at the end.
/// @throws ShapeError as above, and where the past does not fit the weights
/// @see Shazeer 2019, section 2.4.1 ("incremental" inference)
CachedMultiHead cached_self_attention(const Matrix& x, const std::optional<KeyValueCache>& past,
                                      const MultiHeadWeights& weights, const MultiHeadOptions& options = {},
                                      const Trace& trace = {});

} // namespace attn
