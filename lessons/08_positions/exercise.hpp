#pragma once

#include <cstddef>

/// One number of a sinusoidal position embedding, sines and cosines interleaved.
/// @param position  p, from 0
/// @param feature   i, from 0: an even one is a sine, an odd one a cosine
/// @param d         the number of features
/// @return the sine or cosine of p / 10000^(2 floor(i / 2) / d)
double my_sinusoid(std::size_t position, std::size_t feature, std::size_t d);
