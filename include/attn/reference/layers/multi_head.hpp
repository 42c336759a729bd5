#pragma once

#include "attn/reference/attention/dot_product.hpp"
#include "attn/reference/layers/linear.hpp"
#include "attn/reference/layers/rms_norm.hpp"

#include <vector>

namespace attn {

/// The learned parameters of multi-head attention: the columns of each map are divided among the heads, in order.
struct MultiHeadWeights {
    LinearWeights query; ///< (d_model, h d_k)
    LinearWeights key;   ///< (d_memory, h d_k), or (d_memory, g d_k), see grouped_query_attention()
    LinearWeights value; ///< (d_memory, h d_v), or (d_memory, g d_v)
    std::optional<LinearWeights> output = {};      ///< W^O, (h d_v, d_model); without it the heads stay side by side
    std::optional<RmsNormWeights> query_norm = {}; ///< (d_k), of each head's queries, see grouped_query_attention()
    std::optional<RmsNormWeights> key_norm = {};   ///< (d_k), of each head's keys
};

/// Options of multi_head_attention().
struct MultiHeadOptions {
    std::size_t heads = 1;
    std::optional<Causal> causal = {};  ///< no later keys; joined with the mask that is given
    std::optional<double> scale = {};   ///< what scores are multiplied by; 1/sqrt(d_k) unless given
    std::optional<double> softcap = {}; ///< limits the scaled scores, see scaled_dot_product_attention()
};

/// What multi-head attention gives.
template <Sequence T>
struct MultiHeadOf {
    T output;               ///< ((b,) n, d_model), or ((b,) n, h d_v) without an output map
    std::vector<T> weights; ///< of each head, ((b,) n, m)
};
using MultiHead = MultiHeadOf<Matrix>;
using BatchMultiHead = MultiHeadOf<Tensor3>;

/// Multi-head self-attention: several attention heads side by side, each with its own small queries, keys and values.
///
/// Each head has one row of weights per query, so several heads can follow several relations between tokens. Usually
/// each has d_k = d_model / h features, so that all heads together cost about as much as one head of full width.
///
/// @param x        ((b,) n, d_model)
/// @param mask     (n, m) or (b, n, m), true where a query can attend; (b, h, n, m) for each head; optional
/// @param bias     (n, m), (b, n, m) or (b, h, n, m), added to the scaled scores; optional
/// @param weights  the packed maps of all heads
/// @param options  heads, causal or not, scale
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
///                 this scope, before the heads; where each head has its own, head.0 has a `mask`, which is `mask[:, 0]`
///                 (`mask[0, 0]` where all sequences share it), and also a `bias`; without an output map `output` is
///                 another name of `merged`
/// @throws ShapeError where x and the weights disagree, h does not divide their columns, or the mask does not fit
/// @throws Error      where the weights have norms of queries or keys, which only grouped_query_attention() has
/// @see Vaswani et al. 2017, section 3.2.2; documents 000, 001 and 003 of docs/sources.md
template <Sequence T>
MultiHeadOf<T> multi_head_attention(const T& x, const std::optional<AnyMask>& mask, const std::optional<AnyBias>& bias,
                                    const MultiHeadWeights& weights, const MultiHeadOptions& options = {},
                                    const Trace& trace = {});

/// Multi-head cross-attention: queries are made of one sequence, keys and values of another.
///
/// @param x             ((b,) n, d_model): queries are made of them
/// @param memory        ((b,) m, d_memory): keys and values are made of them
/// @param mask          (n, m) or (b, n, m), true where a query can attend; optional
/// @param bias          (n, m) or (b, n, m), added to the scaled scores of all heads; optional
/// @param weights       the packed maps of all heads
/// @param options       heads, causal or not, scale
/// @param trace         as above, with the input `memory` after `x`, and in its place in the formulas of key and value
/// @throws ShapeError   as above
template <Sequence T>
MultiHeadOf<T> multi_head_attention(const T& x, const T& memory, const std::optional<AnyMask>& mask,
                                    const std::optional<AnyBias>& bias, const MultiHeadWeights& weights,
                                    const MultiHeadOptions& options = {}, const Trace& trace = {});

/// The general form: keys from one sequence, values from another of the same length, as PyTorch's (query, key, value).
///
/// @param x             ((b,) n, d_model): queries are made of them
/// @param memory        ((b,) m, d_memory): keys are made of them
/// @param value_memory  ((b,) m, d_value): values are made of them
/// @param mask          (n, m) or (b, n, m), true where a query can attend; optional
/// @param bias          (n, m) or (b, n, m), added to the scaled scores of all heads; optional
/// @param weights       the packed maps of all heads
/// @param options       heads, causal or not, scale
/// @param trace         as above, with the input `value_memory` after `memory`
/// @throws ShapeError   as above
template <Sequence T>
MultiHeadOf<T> multi_head_attention(const T& x, const T& memory, const T& value_memory,
                                    const std::optional<AnyMask>& mask, const std::optional<AnyBias>& bias,
                                    const MultiHeadWeights& weights, const MultiHeadOptions& options = {},
                                    const Trace& trace = {});
ATTN_REFUSE_OTHER_TENSORS(multi_head_attention);

} // namespace attn
