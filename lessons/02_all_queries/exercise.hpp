#pragma once

#include "attn/tensor.hpp"

/// Dot-product attention for all queries.
/// @param queries  (n, d_k)
/// @param keys     (m, d_k)
/// @param values   (m, d_v)
/// @return (n, d_v)
attn::Matrix my_attention(const attn::Matrix& queries, const attn::Matrix& keys,
                          const attn::Matrix& values);

/// The same where a token is a column: Q is (d_k, n), K (d_k, m), V (d_v, m).
/// @return O, (d_v, n)
attn::Matrix my_attention_in_columns(const attn::Matrix& Q, const attn::Matrix& K,
                                     const attn::Matrix& V);
