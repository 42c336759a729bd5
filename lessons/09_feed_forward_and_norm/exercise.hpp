#pragma once

#include "attn/core/tensor.hpp"

/// One token, normalised over its features to mean 0 and variance 1.
/// @param token    (d)
/// @param epsilon  added to the variance, inside the root
/// @return (d): (token - mean) / sqrt(variance + epsilon)
attn::Vector my_normalized(const attn::Vector& token, double epsilon);
