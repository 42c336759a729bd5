#pragma once

#include "attn/tensor.hpp"

/// What all heads found, side by side for each token.
/// @param contexts  (h, n, d_v)
/// @return (n, h d_v): token i has head 0's d_v numbers first
attn::Matrix my_merged_heads(const attn::Tensor3& contexts);
