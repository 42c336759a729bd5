#pragma once

#include "attn/reference/layers/cache.hpp"

/// Attention of one head with a cache: a new token attends to itself and all earlier
/// tokens.
/// @param query  (1, d_k): of the new token
/// @param key    (1, d_k): of the new token
/// @param value  (1, d_v): of the new token
/// @param cache  keys (m, d_k) and values (m, d_v) of the earlier tokens; the new key
///               and value are appended
/// @return the context of the new token, (1, d_v)
attn::Matrix my_cached_attention(const attn::Matrix& query, const attn::Matrix& key,
                                 const attn::Matrix& value, attn::KeyValueCache& cache);

/// How many numbers the caches of all layers keep per token.
/// @param layers           the number of layers
/// @param key_value_heads  of each layer
/// @param d_k              the size of a key, and of a value
std::size_t my_numbers_per_token(std::size_t layers, std::size_t key_value_heads,
                                 std::size_t d_k);
