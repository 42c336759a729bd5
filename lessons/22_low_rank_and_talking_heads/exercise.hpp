#pragma once

#include "attn/tensor.hpp"

/// Mixtures of all heads' scores.
/// @param scores   (h_k, n, m): each head's score of each pair
/// @param mixture  (h_k, h): column j holds the factor of each head in mixture j
/// @return (h, n, m)
attn::Tensor3 my_mixed_heads(const attn::Tensor3& scores, const attn::Matrix& mixture);
