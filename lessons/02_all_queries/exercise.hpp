#pragma once

#include "attn/core/tensor.hpp"

/// Dot-product attention of all queries: softmax(queries keys^T) values.
/// @param queries  (n, d_k)
/// @param keys     (m, d_k)
/// @param values   (m, d_v)
/// @return (n, d_v)
attn::Matrix my_attention(const attn::Matrix& queries, const attn::Matrix& keys,
                          const attn::Matrix& values);

/// The same, where each token is a column.
/// @param Q  (d_k, n)
/// @param K  (d_k, m)
/// @param V  (d_v, m)
/// @return (d_v, n)
attn::Matrix my_attention_in_columns(const attn::Matrix& Q, const attn::Matrix& K,
                                     const attn::Matrix& V);
