#include "attn/engines/mpi/layout.hpp"

#include "attn/core/error.hpp"
#include "even.hpp"

#include <algorithm>
#include <string>

namespace attn::mpi {
namespace {

/// As even a division as there is.
std::vector<std::size_t> even_counts(std::size_t tokens, std::size_t parts)
{
    if (parts == 0)
        throw Error("mpi::Layout: it has no ranks, expected at least one");
    std::vector<std::size_t> counts;
    for (std::size_t i = 0; i < parts; ++i)
        counts.push_back(even_part(tokens, parts, i).count);
    return counts;
}

std::vector<Chunk> chunks_of(std::span<const std::size_t> counts)
{
    std::vector<Chunk> chunks;
    std::size_t first = 0;
    for (const std::size_t count : counts) {
        chunks.push_back({first, count});
        first += count;
    }
    return chunks;
}

} // namespace

std::size_t Layout::tokens(std::size_t rank) const
{
    std::size_t count = 0;
    for (const Chunk& chunk : of_rank[rank])
        count += chunk.count;
    return count;
}

std::size_t Layout::tokens() const
{
    std::size_t count = 0;
    for (std::size_t rank = 0; rank < ranks(); ++rank)
        count += tokens(rank);
    return count;
}

std::size_t Layout::most_tokens() const
{
    std::size_t most = 0;
    for (std::size_t rank = 0; rank < ranks(); ++rank)
        most = std::max(most, tokens(rank));
    return most;
}

std::size_t Layout::largest_chunk(std::size_t rank) const
{
    std::size_t most = 0;
    for (const Chunk& chunk : of_rank[rank])
        most = std::max(most, chunk.count);
    return most;
}

std::size_t Layout::largest_chunk() const
{
    std::size_t most = 0;
    for (std::size_t rank = 0; rank < ranks(); ++rank)
        most = std::max(most, largest_chunk(rank));
    return most;
}

Layout contiguous_layout(std::span<const std::size_t> tokens_of_rank)
{
    Layout layout;
    for (const Chunk& chunk : chunks_of(tokens_of_rank))
        layout.of_rank.push_back({chunk});
    return layout;
}

Layout contiguous_layout(std::size_t tokens, std::size_t ranks)
{
    return contiguous_layout(even_counts(tokens, ranks));
}

Layout zigzag_layout(std::size_t tokens, std::size_t ranks)
{
    const std::vector<Chunk> chunks = chunks_of(even_counts(tokens, 2 * ranks));
    Layout layout;
    for (std::size_t rank = 0; rank < ranks; ++rank)
        layout.of_rank.push_back({chunks[rank], chunks[2 * ranks - 1 - rank]});
    return layout;
}

void expect_each_token_once(const Layout& layout)
{
    std::vector<Chunk> all;
    for (const std::vector<Chunk>& chunks : layout.of_rank)
        std::ranges::copy_if(chunks, std::back_inserter(all), [](const Chunk& chunk) { return chunk.count != 0; });
    std::ranges::sort(all, {}, &Chunk::first);
    std::size_t next = 0;
    for (const Chunk& chunk : all) {
        if (chunk.first != next)
            throw Error("mpi::Layout: token ", std::min(chunk.first, next), " is in ",
                        (chunk.first > next ? "no chunk" : "several chunks"), ", expected in one");
        next += chunk.count;
    }
}

} // namespace attn::mpi
