#pragma once

#include "attn/core/tensor.hpp"

/// One score per key: the dot product of the query and that key.
/// @param query  (d_k)
/// @param keys   (m, d_k)
/// @return (m)
attn::Vector my_scores(const attn::Vector& query, const attn::Matrix& keys);

/// Softmax: positive weights that sum to 1, exp(score) divided by the sum of all
/// exp(score).
/// @param scores  (m)
/// @return (m)
attn::Vector my_weights(const attn::Vector& scores);

/// The average of the values by their weights.
/// @param weights  (m)
/// @param values   (m, d_v)
/// @return (d_v)
attn::Vector my_output(const attn::Vector& weights, const attn::Matrix& values);
