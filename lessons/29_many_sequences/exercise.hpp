#pragma once

#include "attn/core/tensor.hpp"

#include <cstddef>

/// At which position of its own sequence each word of a padded batch stands, whichever side
/// the padding is on.
/// @param real  (b, n): true where there is a word, false at padding
/// @return (b, n): 0 for the first word of a row, 1 for the second; 0 at padding before
///         them. Padding after them has the position of the last word.
attn::Matrix my_positions(const attn::Mask& real);

/// A query attends to the tokens of its sequence, whose keys and values are in pages.
/// @param query   (d_k)
/// @param keys    (slots, d_k): a pool of blocks of `size` rows each; also those of others
/// @param values  (slots, d_v)
/// @param table   the blocks of the sequence, in the order of its tokens
/// @param tokens  how many it has: the last block can have room for more
/// @param size    rows of a block
/// @return (d_v): the context, with scores that are divided by the root of d_k
attn::Vector my_paged_context(const attn::Vector& query, const attn::Matrix& keys,
                              const attn::Matrix& values, const attn::Integers& table,
                              std::size_t tokens, std::size_t size);
