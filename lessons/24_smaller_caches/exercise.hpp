#pragma once

#include "attn/core/tensor.hpp"

/// The scaled score of one query and one key of latent attention, with the map to keys
/// absorbed into the query: no key is made of the latent.
/// @param query         (d_n): the features of a head's query that are not rotated
/// @param rotary_query  (d_r): those that are, after the rotation
/// @param key_weights   (d_c, d_n): the head's map from a latent to a key
/// @param latent        (d_c): of the key's token, from the cache
/// @param shared_key    (d_r): the rotary key of all heads, from the cache
/// @return the score that a head with keys of d_n + d_r features gives
double my_absorbed_score(const attn::Vector& query, const attn::Vector& rotary_query,
                         const attn::Matrix& key_weights, const attn::Vector& latent,
                         const attn::Vector& shared_key);
