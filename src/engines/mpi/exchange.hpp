#pragma once

#include "ring.hpp"

#include "attn/engines/mpi/ulysses_attention.hpp"

#include <vector>

namespace attn::mpi {

/// One tensor that is to move from rows of this rank's tokens with all heads, (b, h, n of this rank, d), to rows of all
/// tokens with this rank's heads, (b, heads, n, d), or back.
struct Moved {
    Const from;
    HeadRows<float> to;
    bool is_of_groups = false; ///< its heads are the key/value heads
};

class Exchange {
public:
    Exchange(MPI_Comm comm, const Layout& layout, const AttentionShape& shape);

    /// From tokens to heads.
    /// @return how many bytes went to other ranks
    std::size_t to_heads(const std::vector<Moved>& all) const;
    std::size_t to_tokens(const std::vector<Moved>& all) const;

    const HeadShare& share() const { return shares_[rank_]; }

private:
    struct Part {
        std::size_t first_head, heads;
        std::vector<Chunk> rows;
    };
    Part heads_part(std::size_t rank, bool is_of_groups) const;  ///< of a rank's heads, with this rank's tokens
    Part tokens_part(std::size_t rank, bool is_of_groups) const; ///< of a rank's tokens, with this rank's heads

    template <class OfSent, class OfReceived>
    std::size_t exchange(const std::vector<Moved>& all, const OfSent& of_sent, const OfReceived& of_received) const;

    MPI_Comm comm_;
    const Layout& layout_;
    std::size_t rank_;
    std::vector<HeadShare> shares_;
};

} // namespace attn::mpi
