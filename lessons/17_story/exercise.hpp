#pragma once

#include "attn/layers/cache.hpp"

/// Attention of one head with a cache: the query of a new token attends to all tokens so far.
/// @param query  (1, d_k): of the new token
/// @param key    (1, d_k): of the new token
/// @param value  (1, d_v): of the new token
/// @param cache  keys (m, d_k) and values (m, d_v) of the tokens before; the new ones are to be put after them
/// @return the context of the new token, (1, d_v)
attn::Matrix my_cached_attention(const attn::Matrix& query, const attn::Matrix& key,
                                 const attn::Matrix& value, attn::KeyValueCache& cache);

/// How many numbers a token leaves in the caches of all layers: a key and a value of each key/value head.
std::size_t my_numbers_per_token(std::size_t layers, std::size_t key_value_heads,
                                 std::size_t d_k);
