#pragma once

#include <cstddef>
#include <span>
#include <vector>

/// Attention across machines, on MPI.
namespace attn::mpi {

/// The tokens [first, first + count) of a sequence.
struct Chunk {
    std::size_t first = 0, count = 0;
};

/// Which tokens of a sequence each rank holds: its chunks, one after the other in its rows.
///
/// Every token is in one chunk, so that of two chunks all tokens of the one come before all tokens of the other. What a
/// causal mask allows between them is therefore everything, nothing, or, within one chunk, its diagonal.
struct Layout {
    std::vector<std::vector<Chunk>> of_rank;

    std::size_t ranks() const { return of_rank.size(); }
    std::size_t tokens(std::size_t rank) const;
    std::size_t tokens() const;                        ///< of all ranks
    std::size_t most_tokens() const;                   ///< that one rank holds
    std::size_t largest_chunk(std::size_t rank) const; ///< its tokens
    std::size_t largest_chunk() const;                 ///< of all ranks
};

/// One chunk per rank, in the order of the ranks.
/// @param tokens_of_rank  how many tokens each rank holds; 0 is a rank without tokens
Layout contiguous_layout(std::span<const std::size_t> tokens_of_rank);

/// The same with as even a division as there is: the first ranks hold one token more.
Layout contiguous_layout(std::size_t tokens, std::size_t ranks);

/// Two chunks per rank, of 2P in all: rank r holds chunks r and 2P - 1 - r.
///
/// With a causal mask an early token has few keys and a late one many. By this order each rank has as much to compute
/// as the others.
/// @see Brandon et al. 2023, Striped Attention, for the imbalance; the zigzag order is that of Llama 3 (Grattafiori et
///      al. 2024, section 3.3.2)
Layout zigzag_layout(std::size_t tokens, std::size_t ranks);

/// Checks that each token of the sequence is in one chunk.
/// @throws Error where it is in none or in several
void expect_each_token_once(const Layout& layout);

} // namespace attn::mpi
