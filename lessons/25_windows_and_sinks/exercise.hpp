#pragma once

#include "attn/core/tensor.hpp"

#include <cstddef>

/// Which keys each query can attend to, in a causal window beside a cache, with the first
/// tokens kept. The queries are the newest of the m tokens: query i is token m - n + i.
/// @param n      queries
/// @param m      keys: those in the cache, and those of the queries
/// @param width  of the window: a query can attend to so many keys, its own the last
/// @param kept   so many tokens at the beginning can be attended to from anywhere behind
/// @return (n, m): true where the query can attend to the key
attn::Mask my_window_mask(std::size_t n, std::size_t m, std::size_t width,
                          std::size_t kept);
