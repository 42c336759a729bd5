#pragma once

#include "attn/core/tensor.hpp"

/// Repairs the weights of a program that applied its causal mask after softmax instead of
/// before: its rows of weights do not sum to 1.
/// @param weights  (n, n): softmax of all scores, then zeros in place of later keys
/// @return (n, n): the weights that a mask before softmax gives
attn::Matrix my_repaired_weights(const attn::Matrix& weights);
