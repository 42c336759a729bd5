#pragma once

#include "attn/core/tensor.hpp"

/// The gradient at softmax's input: weights = softmax(scaled), row by row.
/// @param weights   (n, m): each row sums to 1, or is 0 throughout
/// @param arriving  (n, m): the gradient at the weights
/// @return (n, m): the gradient at scaled
attn::Matrix my_score_gradient(const attn::Matrix& weights, const attn::Matrix& arriving);

/// The gradient at the keys: scaled = queries @ keys.T / sqrt(d_k).
/// @param arriving  (n, m): the gradient at scaled
/// @param queries   (n, d_k)
/// @return (m, d_k): the gradient at the keys
attn::Matrix my_key_gradient(const attn::Matrix& arriving, const attn::Matrix& queries);
