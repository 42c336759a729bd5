#pragma once

#include "attn/tensor.hpp"

/// The aligned question embedding: for each token of the passage a mean of the question's tokens, in the proportion of
/// softmax(passage question^T / sqrt(d)).
/// @param passage   (n, d)
/// @param question  (m, d)
/// @return (n, d)
attn::Matrix my_aligned_question(const attn::Matrix& passage,
                                 const attn::Matrix& question);
