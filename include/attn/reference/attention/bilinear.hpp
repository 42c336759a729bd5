#pragma once

#include "attn/reference/attention/weigh.hpp"

namespace attn {

/// Bilinear attention: softmax(Q W K^T) V. A learned matrix W compares queries and keys, also of different sizes.
///
/// @param queries   (n, d_q)
/// @param keys      (m, d_k)
/// @param values    (m, d_v)
/// @param bilinear  W, (d_q, d_k); the identity gives dot_product_attention()
/// @param options   causal or not; normalisation
/// @param trace     | step             | shape      | formula                    |
///                  |------------------|------------|----------------------------|
///                  | queries          | (n, d_q)   |                            |
///                  | keys             | (m, d_k)   |                            |
///                  | values           | (m, d_v)   |                            |
///                  | bilinear_weights | (d_q, d_k) |                            |
///                  | projected        | (n, d_k)   | queries @ bilinear_weights |
///                  | scores           | (n, m)     | projected @ keys.T         |
///                  | weights          | (n, m)     | softmax(scores)            |
///                  | context          | (n, d_v)   | weights @ values           |
///
///                  and with a mask the steps of weigh_values() before `weights`
/// @throws ShapeError where tensors disagree in d_q, d_k or m, or with the mask
/// @see Luong et al. 2015, section 3.1 ("general"); document 001 of docs/sources.md (the query-key product is one choice of several)
Attention bilinear_attention(const Matrix& queries, const Matrix& keys, const Matrix& values, const Matrix& bilinear,
                             const WeighingOptions& options = {}, const Trace& trace = {});

} // namespace attn
