#pragma once

#include "attn/attention/weigh.hpp"

namespace attn {

/// Dot-product attention: softmax(Q K^T) V.
///
/// The simplest comparison there is: a query and a key that point the same way have a large dot product.
///
/// @param queries  (n, d_k)
/// @param keys     (m, d_k)
/// @param values   (m, d_v)
/// @param options  mask and normalisation
/// @param trace    | step    | shape    | formula           |
///                 |---------|----------|-------------------|
///                 | queries | (n, d_k) |                   |
///                 | keys    | (m, d_k) |                   |
///                 | values  | (m, d_v) |                   |
///                 | scores  | (n, m)   | queries @ keys.T  |
///                 | weights | (n, m)   | softmax(scores)   |
///                 | context | (n, d_v) | weights @ values  |
///
///                 and with a mask the two steps of weigh_values before `weights`
/// @throws ShapeError where d_k of queries and keys, m of keys and values, or the mask disagree
/// @see Luong et al. 2015, section 3.1 ("dot"); seed documents 000 and 004
Attention dot_product_attention(const Matrix& queries, const Matrix& keys, const Matrix& values,
                                const WeighingOptions& options = {}, const Trace& trace = {});

/// What scaled_dot_product_attention() may be told.
struct AttentionOptions {
    std::optional<Mask> mask = {};    ///< (n, m), true where a query may attend; everything unless given
    std::optional<double> scale = {}; ///< what scores are multiplied by; 1/sqrt(d_k) unless given
};

/// Scaled dot-product attention: softmax(Q K^T / sqrt(d_k)) V.
///
/// A dot product of d_k independent terms of unit variance has the variance d_k: divided by the root, the scores keep
/// unit variance whatever d_k is, and softmax stays soft.
///
/// @param queries  (n, d_k)
/// @param keys     (m, d_k)
/// @param values   (m, d_v)
/// @param options  mask and scale
/// @param trace    | step    | shape    | formula                      |
///                 |---------|----------|------------------------------|
///                 | queries | (n, d_k) |                              |
///                 | keys    | (m, d_k) |                              |
///                 | values  | (m, d_v) |                              |
///                 | scores  | (n, m)   | queries @ keys.T             |
///                 | scaled  | (n, m)   | scores / sqrt(keys.shape[1]) |
///                 | weights | (n, m)   | softmax(scaled)              |
///                 | context | (n, d_v) | weights @ values             |
///
///                 with a scale of the caller's, `scaled` is `scores * SCALE`; with a mask, the two steps of
///                 weigh_values come before `weights`
/// @throws ShapeError where d_k of queries and keys, m of keys and values, or the mask disagree
/// @see Vaswani et al. 2017, section 3.2.1; seed documents 001, 002 and 003
Attention scaled_dot_product_attention(const Matrix& queries, const Matrix& keys, const Matrix& values,
                                       const AttentionOptions& options = {}, const Trace& trace = {});

} // namespace attn
