#pragma once

#include "attn/core/tensor.hpp"
#include "attn/core/trace.hpp"

#include <optional>
#include <vector>

namespace attn {

/// Where the tokens of a sequence are in a pool of blocks: token i in row i % size of block `blocks[i / size]`.
struct PageTable {
    std::vector<std::size_t> blocks = {}; ///< in the order of the tokens, by their numbers in the pool
    std::size_t tokens = 0;
};

/// A pool of blocks in which a cache keeps its rows, and which of them each sequence has.
///
/// Sequences that begin alike can have blocks in common. What all of them have is read only: grown() copies a block before a sequence
/// writes into one that another has, too ("copy on write").
/// @see Kwon et al. 2023, "Efficient Memory Management for Large Language Model Serving with PagedAttention", section 4
struct Pages {
    std::size_t size = 16;              ///< rows of a block, one per token
    std::size_t count = 0;              ///< blocks of the pool
    std::vector<PageTable> tables = {}; ///< of each sequence
};

/// How many sequences have each block; none where it is free.
/// @throws Error where a table has a block that the pool has not, or fewer than its tokens need
std::vector<std::size_t> users_of(const Pages& pages);

/// The first tokens of a sequence, for another one that begins alike, or for itself where later tokens are taken back: the same blocks.
/// @throws Error where the sequence has fewer tokens
PageTable beginning_of(const PageTable& table, std::size_t tokens, std::size_t size);

/// The rows of one block become those of another, too.
struct BlockCopy {
    std::size_t from, to;
};

/// The results of grown().
struct GrownPages {
    Pages pages;
    std::optional<BlockCopy> copy; ///< of the block that the first new token is written into, where others have it
};

/// Makes room for more tokens of a sequence: first in its last block, then in free ones, the lowest number first.
/// @throws Error where too few blocks are free, or as users_of()
GrownPages grown(Pages pages, std::size_t sequence, std::size_t tokens);

/// The rows of the pool that have the tokens of a sequence: the pool's rows, `pool[slots]`, are those of the tokens in their order.
/// @param trace    | step  | shape     | formula                                   |
///                 |-------|-----------|-------------------------------------------|
///                 | table | (blocks,) |                                           |
///                 | slots | (m,)      | 4 * table[arange(9) // 4] + arange(9) % 4 |
///
///                 here of 9 tokens in blocks of 4 rows
/// @throws Error as users_of(), of this table
Term<Integers> slots_of(const PageTable& table, const Pages& pages, const Trace& trace = {});

} // namespace attn
