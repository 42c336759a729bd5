#pragma once

#include <cstddef>

/// One number of a sinusoidal position embedding, interleaved.
/// @param position  p, from 0
/// @param feature   i, from 0: even ones are sines, odd ones cosines
/// @param d         how many features there are
/// @return sin or cos of p / 10000^(2 floor(i / 2) / d)
double my_sinusoid(std::size_t position, std::size_t feature, std::size_t d);
