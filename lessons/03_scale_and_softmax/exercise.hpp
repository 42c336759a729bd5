#pragma once

#include "attn/core/tensor.hpp"

/// Softmax of one row of scores of any size.
/// @param scores  (m), finite or minus infinity, at least one of them finite
/// @return (m)
attn::Vector my_softmax(const attn::Vector& scores);

/// The number by which a dot product must be divided to have variance 1.
/// @param d_k       features of query and key, independent and of mean 0
/// @param variance  of each feature
double my_divisor(std::size_t d_k, double variance);
