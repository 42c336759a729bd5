#pragma once

#include "attn/layers/cache.hpp"

/// One head looks back with a cache: a new token asks, and what came before is in the cache.
/// @param query  (1, d_k): of the new token
/// @param key    (1, d_k): of the new token
/// @param value  (1, d_v): of the new token
/// @param cache  keys (m, d_k) and values (m, d_v) of the tokens before; the new ones have to be put behind them
/// @return the context of the new token, (1, d_v)
attn::Matrix my_cached_attention(const attn::Matrix& query, const attn::Matrix& key, const attn::Matrix& value,
                                 attn::KeyValueCache& cache);

/// How many numbers a token leaves in the caches of all layers: a key and a value of each key/value head.
std::size_t my_numbers_per_token(std::size_t layers, std::size_t key_value_heads, std::size_t d_k);
