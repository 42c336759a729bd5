#pragma once

#include "attn/core/tensor.hpp"

/// The contexts of all heads, side by side for each token.
/// @param contexts  (h, n, d_v)
/// @return (n, h d_v): a row has the d_v numbers of head 0, then those of head 1, and so
/// on
attn::Matrix my_merged_heads(const attn::Tensor3& contexts);
