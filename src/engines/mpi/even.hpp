#pragma once

#include "attn/engines/mpi/layout.hpp"

#include <algorithm>

namespace attn::mpi {

/// Part i of as even a division of [0, all) as there is: the first parts have one more.
inline Chunk even_part(std::size_t all, std::size_t parts, std::size_t i)
{
    return {i * (all / parts) + std::min(i, all % parts), all / parts + (i < all % parts ? 1 : 0)};
}

} // namespace attn::mpi
