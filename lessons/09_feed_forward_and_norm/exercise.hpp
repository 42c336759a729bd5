#pragma once

#include "attn/tensor.hpp"

/// One token, normalised: mean 0 and variance 1 over its features.
/// @param token    (d)
/// @param epsilon  added to the variance, inside the root
/// @return (d)
attn::Vector my_normalized(const attn::Vector& token, double epsilon);
