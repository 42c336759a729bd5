#pragma once

#include "attn/tensor.hpp"

/// Attention of each token to itself and to the `radius` tokens before it, not to later ones.
/// @param x  (n, d): queries, keys and values in one
/// @return (n, d): for each token, the average of these tokens, weighted by softmax(x_i . x_j / sqrt(d))
attn::Matrix my_past_window(const attn::Matrix& x, std::size_t radius);
