#pragma once

#include "attn/tensor.hpp"

/// One dot product per key.
/// @param query  (d_k)
/// @param keys   (m, d_k)
/// @return (m)
attn::Vector my_scores(const attn::Vector& query, const attn::Matrix& keys);

/// Positive proportions that sum to one.
/// @param scores  (m)
/// @return (m)
attn::Vector my_weights(const attn::Vector& scores);

/// The values in the proportion of their weights, added up.
/// @param weights  (m)
/// @param values   (m, d_v)
/// @return (d_v)
attn::Vector my_output(const attn::Vector& weights, const attn::Matrix& values);
