#pragma once

#include "attn/attention/weigh.hpp"

namespace attn {

/// Dot-product attention: softmax(Q K^T) V.
///
/// The simplest comparison there is: a query and a key that point the same way have a large dot product.
///
/// @param queries  ((b,) n, d_k)
/// @param keys     ((b,) m, d_k)
/// @param values   ((b,) m, d_v)
/// @param options  mask and normalisation
/// @param trace    | step    | shape         | formula           |
///                 |---------|---------------|-------------------|
///                 | queries | ((b,) n, d_k) |                   |
///                 | keys    | ((b,) m, d_k) |                   |
///                 | values  | ((b,) m, d_v) |                   |
///                 | scores  | ((b,) n, m)   | queries @ keys.T  |
///                 | weights | ((b,) n, m)   | softmax(scores)   |
///                 | context | ((b,) n, d_v) | weights @ values  |
///
///                 and with a mask the two steps of weigh_values before `weights`
/// @throws ShapeError where d_k of queries and keys, m of keys and values, b of any two, or the mask disagree
/// @see Luong et al. 2015, section 3.1 ("dot"); seed documents 000 and 004
Attention dot_product_attention(const Matrix& queries, const Matrix& keys, const Matrix& values,
                                const WeighingOptions& options = {}, const Trace& trace = {});
/// The same for each sequence of a batch.
BatchAttention dot_product_attention(const Tensor3& queries, const Tensor3& keys, const Tensor3& values,
                                     const WeighingOptions& options = {}, const Trace& trace = {});

/// What scaled_dot_product_attention() may be told.
struct AttentionOptions {
    std::optional<AnyMask> mask = {}; ///< (n, m) or (b, n, m), true where a query may attend; everything unless given
    std::optional<Matrix> bias = {};  ///< (n, m), added to the scaled scores; such as alibi_bias()
    std::optional<double> scale = {}; ///< what scores are multiplied by; 1/sqrt(d_k) unless given
};

/// Scaled dot-product attention: softmax(Q K^T / sqrt(d_k)) V.
///
/// A dot product of d_k independent terms of unit variance has the variance d_k: divided by the root, the scores keep
/// unit variance whatever d_k is, and softmax stays soft.
///
/// @param queries  ((b,) n, d_k)
/// @param keys     ((b,) m, d_k)
/// @param values   ((b,) m, d_v)
/// @param options  mask, bias and scale
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
///                 with a scale of the caller's, `scaled` is `scores * SCALE`; with a bias, the input `bias` and
///                 `biased`, which is `scaled + bias`, follow; with a mask, the two steps of weigh_values come before
///                 `weights`
/// @throws ShapeError where d_k of queries and keys, m of keys and values, b of any two, bias or mask disagree
/// @see Vaswani et al. 2017, section 3.2.1; seed documents 001, 002 and 003
Attention scaled_dot_product_attention(const Matrix& queries, const Matrix& keys, const Matrix& values,
                                       const AttentionOptions& options = {}, const Trace& trace = {});
/// The same for each sequence of a batch.
BatchAttention scaled_dot_product_attention(const Tensor3& queries, const Tensor3& keys, const Tensor3& values,
                                            const AttentionOptions& options = {}, const Trace& trace = {});

} // namespace attn
