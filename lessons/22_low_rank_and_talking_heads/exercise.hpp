#pragma once

#include "attn/core/tensor.hpp"

/// Mixtures of the scores of all heads.
/// @param scores   (h_k, n, m): of each head, the score of each pair of tokens
/// @param mixture  (h_k, h): column j holds the factor of each head in mixture j
/// @return (h, n, m)
attn::Tensor3 my_mixed_heads(const attn::Tensor3& scores, const attn::Matrix& mixture);
