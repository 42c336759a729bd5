#pragma once

#include <cstddef>

/// The number of learned numbers of an encoder. Each layer has four maps (d_model,
/// d_model) of attention and two maps of the feed-forward network, (d_model, d_ff) and
/// (d_ff, d_model), each map with a bias; and two norms, each with a gain and a bias of
/// d_model numbers.
/// @param layers   the number of layers
/// @param d_model  features of a token
/// @param d_ff     hidden units of the feed-forward network
std::size_t my_parameter_count(std::size_t layers, std::size_t d_model, std::size_t d_ff);
