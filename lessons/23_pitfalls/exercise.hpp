#pragma once

#include "attn/tensor.hpp"

/// What a program of somebody else's should have computed. Its mistake is one of the museum's: causal attention over n
/// tokens whose mask is applied too late. Its rows of weights do not sum to one.
/// @param weights  (n, n): softmax of all scores, later keys set to zero afterwards
/// @return (n, n): the weights that masking before softmax gives
attn::Matrix my_repaired_weights(const attn::Matrix& weights);
