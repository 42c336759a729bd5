#pragma once

#include "attn/tensor.hpp"

/// The weights of one sentence of a batch, where some keys are padding and no query may see a later key.
/// @param scores  (n, n)
/// @param length  the first so many tokens are real
/// @return (n, n): each row sums to one
attn::Matrix my_masked_weights(const attn::Matrix& scores, std::size_t length);
