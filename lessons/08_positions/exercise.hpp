#pragma once

#include "attn/tensor.hpp"

/// One number of a sinusoidal position embedding, interleaved.
/// @param position  p, from 0
/// @param feature   i, from 0: even ones are sines, odd ones cosines
/// @param d         how many features there are
/// @return sin or cos of p / 10000^(2 floor(i / 2) / d)
double my_sinusoid(std::size_t position, std::size_t feature, std::size_t d);

/// One pair of features, turned as rotary embeddings do.
/// @param pair   two numbers
/// @param angle  in radians
/// @return two numbers
attn::Vector my_turned_pair(const attn::Vector& pair, double angle);
