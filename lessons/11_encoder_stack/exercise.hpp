#pragma once

#include <cstddef>

/// How many numbers an encoder learns: in each layer four maps of attention, two of the feed-forward network, each with a
/// bias, and two norms, each with a gain and a bias.
/// @param layers   how many
/// @param d_model  features
/// @param d_ff     hidden units
std::size_t my_parameter_count(std::size_t layers, std::size_t d_model, std::size_t d_ff);
