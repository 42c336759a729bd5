#pragma once

#include <cstddef>
#include <numeric>
#include <vector>

namespace attn::mpi {

/// The bytes that one rank sends, per hop of a ring, per exchange, or per sum over all ranks.
///
/// These are the numbers of tensors. The few bytes by which ranks first agree on shapes are not counted.
struct Traffic {
    std::vector<std::size_t> sent;

    std::size_t total() const { return std::accumulate(sent.begin(), sent.end(), std::size_t{0}); }
    friend bool operator==(const Traffic&, const Traffic&) = default;
};

/// The sizes of attention, the same on every rank.
struct AttentionShape {
    std::size_t b = 1;   ///< sequences
    std::size_t h = 1;   ///< query heads
    std::size_t g = 1;   ///< key/value heads
    std::size_t d_k = 1; ///< features of a query or key
    std::size_t d_v = 1; ///< features of a value
};

} // namespace attn::mpi
