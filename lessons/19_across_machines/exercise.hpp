#pragma once

#include "attn/core/tensor.hpp"

#include <cstddef>

/// Counts the scores that each rank of a ring computes at one hop, under a causal mask:
/// the pairs of a query of its own and a key that it has at that hop, where the key stands
/// at the query's place or before it.
/// @param rank_of  (n): the rank that holds each token of the sequence
/// @param ranks    P: how many ranks there are; some may hold no token
/// @param hop      0 to P - 1: at hop 0 a rank has its own keys; after each hop they go
///                 on to the next rank, from the last one to rank 0
/// @return (P): of each rank
attn::Integers my_scores(const attn::Integers& rank_of, std::size_t ranks,
                         std::size_t hop);
