#pragma once

#include "attn/core/tensor.hpp"

/// Keys as a cache reads them back that keeps them as whole numbers with a sign and one
/// scale for each channel: the scale makes the largest number of the channel, by its size,
/// the largest code.
/// @param keys          (m, d_k): a row for each token; no channel is zero in every token
/// @param largest_code  of the whole numbers: 127 for int8, 7 for int4
/// @return (m, d_k): the rounded keys
attn::Matrix my_stored_keys(const attn::Matrix& keys, double largest_code);
