#pragma once

#include "attn/reference/models/schedule.hpp"

namespace attn {

/// @throws Error where a format is of a whole tensor, or a ring is shorter than a group of tokens
void expect_storable(const CacheFormat& format, const std::optional<std::size_t>& ring);

/// Rounds what a call added to a cache, and the groups of tokens that it completed.
/// @param added        so many tokens, the last
/// @param first_layer  the number of the cache's first layer
/// @param call         the scope of the call, which has the steps of its layers
/// @throws Error where a layer keeps no keys and values
void store(PlacedCache& cache, std::size_t added, const CacheFormat& format, std::size_t first_layer,
           const Trace& call);

} // namespace attn
