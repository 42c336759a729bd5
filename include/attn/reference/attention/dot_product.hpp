#pragma once

#include "attn/reference/attention/scale.hpp"
#include "attn/reference/attention/weigh.hpp"

namespace attn {

/// Dot-product attention: softmax(Q K^T) V.
///
/// The score of a query and a key is their dot product; it is large if both vectors have a similar direction.
///
/// @param queries  ((b,) n, d_k)
/// @param keys     ((b,) m, d_k)
/// @param values   ((b,) m, d_v)
/// @param options  mask; causal or not; normalisation
/// @param trace    | step    | shape         | formula           |
///                 |---------|---------------|-------------------|
///                 | queries | ((b,) n, d_k) |                   |
///                 | keys    | ((b,) m, d_k) |                   |
///                 | values  | ((b,) m, d_v) |                   |
///                 | scores  | ((b,) n, m)   | queries @ keys.T  |
///                 | weights | ((b,) n, m)   | softmax(scores)   |
///                 | context | ((b,) n, d_v) | weights @ values  |
///
///                 and with a mask the steps of weigh_values() before `weights`
/// @throws ShapeError where d_k of queries and keys, m of keys and values, b of any two, or the mask disagree
/// @see Luong et al. 2015, section 3.1 ("dot"); documents 000 and 004 of docs/sources.md
template <Attending T>
AttentionOf<T> dot_product_attention(const T& queries, const T& keys, const T& values,
                                     const WeighingOptions& options = {}, const Trace& trace = {});
ATTN_REFUSE_OTHER_TENSORS(dot_product_attention);

/// Options of scaled_dot_product_attention().
struct AttentionOptions {
    OptionalMask mask = {};             ///< (n, m) or (b, n, m), true where a query can attend
    OptionalBias bias = {};             ///< (n, m) or (b, n, m), added to the scaled scores, such as alibi_bias()
    std::optional<Causal> causal = {};  ///< no later keys; joined with the mask that is given
    std::optional<double> scale = {};   ///< what scores are multiplied by; 1/sqrt(d_k) unless given
    std::optional<double> softcap = {}; ///< limits the scaled scores to (-softcap, softcap): softcap tanh(x / softcap)
    std::optional<Vector> sinks = {};   ///< (1), of heads (h): one more score for each query, see WeighingOptions
};

/// Scaled dot-product attention: softmax(Q K^T / sqrt(d_k)) V.
///
/// A dot product of d_k independent terms of unit variance has the variance d_k. Divided by the root of d_k, the scores
/// have unit variance for any d_k, so that softmax does not saturate.
///
/// @param queries  ((b,) n, d_k)
/// @param keys     ((b,) m, d_k)
/// @param values   ((b,) m, d_v)
/// @param options  mask and bias; causal or not; scale; softcap; sinks
/// @param trace    | step    | shape         | formula                       |
///                 |---------|---------------|-------------------------------|
///                 | queries | ((b,) n, d_k) |                               |
///                 | keys    | ((b,) m, d_k) |                               |
///                 | values  | ((b,) m, d_v) |                               |
///                 | scores  | ((b,) n, m)   | queries @ keys.T              |
///                 | scaled  | ((b,) n, m)   | scores / sqrt(keys.shape[-1]) |
///                 | weights | ((b,) n, m)   | softmax(scaled)               |
///                 | context | ((b,) n, d_v) | weights @ values              |
///
///                 with a given scale, `scaled` is `scores * SCALE`; with a softcap, `capped` follows, which is
///                 `SOFTCAP * tanh(scaled / SOFTCAP)`; with a bias, the input `bias` and `biased`, which is
///                 `scaled + bias` (or `capped + bias`); with a mask, the steps of weigh_values() come before `weights`, and
///                 with sinks those of WeighingOptions.
///
/// Heads of a batch are tensors (b, h, n, d), each step has the axes b and h in front, and mask and bias are (n, m) or
/// (b, h, n, m).
/// @throws ShapeError where d_k of queries and keys, m of keys and values, b of any two, bias or mask disagree, or there is
///                    not one sink for each head
/// @see Vaswani et al. 2017, section 3.2.1; documents 001 to 003 of docs/sources.md; Gemma Team 2024, section 2, for
///      the softcap
template <Attending T>
AttentionOf<T> scaled_dot_product_attention(const T& queries, const T& keys, const T& values,
                                            const AttentionOptions& options = {}, const Trace& trace = {});
ATTN_REFUSE_OTHER_TENSORS(scaled_dot_product_attention);

} // namespace attn
