#pragma once

#include "attn/core/tensor.hpp"

/// The aligned question embedding: softmax(passage question^T / sqrt(d)) question.
/// @param passage   (n, d): the queries
/// @param question  (m, d): the keys and the values
/// @return (n, d): for each token of the passage, an average of the tokens of the
/// question
attn::Matrix my_aligned_question(const attn::Matrix& passage,
                                 const attn::Matrix& question);
