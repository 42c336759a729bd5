#pragma once

#include "attn/tensor.hpp"

/// All heads' scores, each a mixture of all heads' scores.
/// @param scores   (h_k, n, m): what each head says of each pair
/// @param mixture  (h_k, h): column j has how much mixture j takes of each head
/// @return (h, n, m)
attn::Tensor3 my_mixed_heads(const attn::Tensor3& scores, const attn::Matrix& mixture);
