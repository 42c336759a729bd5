#pragma once

#include "attn/tensor.hpp"

/// Softmax of one row, whatever the size of the scores.
/// @param scores  (m), finite or minus infinity
/// @return (m); zeros where every score is minus infinity
attn::Vector my_softmax(const attn::Vector& scores);

/// What a dot product of d_k features, each of the given variance in query and key, is divided by to have variance 1.
double my_divisor(std::size_t d_k, double variance);
