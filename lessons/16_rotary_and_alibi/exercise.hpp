#pragma once

#include "attn/core/tensor.hpp"

/// One pair of features, rotated as rotary embeddings do.
/// @param pair   two numbers
/// @param angle  in radians
/// @return two numbers
attn::Vector my_turned_pair(const attn::Vector& pair, double angle);

/// What ALiBi adds to one score: -slope times the distance between query and key.
/// @param query  its position, from 0
/// @param key    its position, from 0
/// @param slope  of the head
double my_alibi_bias(std::size_t query, std::size_t key, double slope);
