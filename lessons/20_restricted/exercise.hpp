#pragma once

#include "attn/core/tensor.hpp"

/// Attention of each token to itself and to the `radius` tokens before it, to no later
/// token.
/// @param x       (n, d): queries, keys and values
/// @param radius  how many earlier tokens
/// @return (n, d): for each token, the average of the window by softmax(x_i . x_j /
/// sqrt(d))
attn::Matrix my_past_window(const attn::Matrix& x, std::size_t radius);
