#pragma once

#include "attn/core/tensor.hpp"

/// The weights of one sequence. No query can attend to a later key, nor to padding.
/// @param scores  (n, n), after scaling
/// @param length  how many tokens are real; the others are padding
/// @return (n, n): each row sums to 1
attn::Matrix my_masked_weights(const attn::Matrix& scores, std::size_t length);
