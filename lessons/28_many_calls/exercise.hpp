#pragma once

#include "attn/core/tensor.hpp"

#include <cstddef>

/// The attention of one head in one call of many: new tokens beside those that are stored.
/// A query can attend to the keys of tokens that are not later than its own, and of these
/// to the last `width`. What is stored can be in any order, as in a ring.
/// @param queries         (n, d_k), of the call's tokens
/// @param new_keys        (n, d_k)
/// @param new_values      (n, d_v)
/// @param positions       (n): where the call's tokens stand in the sequence
/// @param past_keys       (p, d_k), of earlier calls
/// @param past_values     (p, d_v)
/// @param past_positions  (p): where their tokens stand
/// @param width           of the window: a query's own key and width - 1 before it
/// @return (n, d_v): each token's weighted average of the values, those that are stored
///         first
attn::Matrix my_call(const attn::Matrix& queries, const attn::Matrix& new_keys,
                     const attn::Matrix& new_values, const attn::Vector& positions,
                     const attn::Matrix& past_keys, const attn::Matrix& past_values,
                     const attn::Vector& past_positions, std::size_t width);
