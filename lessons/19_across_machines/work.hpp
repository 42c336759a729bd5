#pragma once

// How many scores each rank computes per hop, under a causal mask.

#include "../lesson.hpp"

#include "attn/engines/mpi/layout.hpp"

#include <algorithm>
#include <string>
#include <tuple>

namespace attn {

inline Integers integers(std::size_t size)
{
    return xt::zeros<std::int64_t>(Integers::shape_type{size});
}

/// The rank that holds each token.
inline Integers holders(const mpi::Layout& layout)
{
    Integers rank_of = integers(layout.tokens());
    for (std::size_t rank = 0; rank < layout.ranks(); ++rank)
        for (const mpi::Chunk& chunk : layout.of_rank[rank])
            for (std::size_t i = 0; i < chunk.count; ++i)
                rank_of(chunk.first + i) = static_cast<std::int64_t>(rank);
    return rank_of;
}

/// How many pairs of a query of one rank and a key of another a causal mask allows.
inline IntegerMatrix allowed_pairs(const Integers& rank_of, std::size_t ranks)
{
    IntegerMatrix pairs =
        xt::zeros<std::int64_t>(IntegerMatrix::shape_type{ranks, ranks});
    for (std::size_t query = 0; query < rank_of.size(); ++query)
        for (std::size_t key = 0; key <= query; ++key)
            ++pairs(rank_of(query), rank_of(key));
    return pairs;
}

/// Whose keys each rank has at a hop.
inline Integers sources_at(std::size_t hop, std::size_t ranks)
{
    Integers sources = integers(ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank)
        sources(rank) = static_cast<std::int64_t>((rank + ranks - hop) % ranks);
    return sources;
}

/// Counts the scores of each rank and hop.
/// @return of the busiest rank of each hop together: all others wait for it
inline std::int64_t count_scores(const Trace& trace, const mpi::Layout& layout,
                                 std::vector<std::vector<double>>& table)
{
    const std::size_t ranks = layout.ranks();
    const std::string all = "arange(" + std::to_string(ranks) + ")",
                      n = "arange(" + std::to_string(layout.tokens()) + ")";
    const Integers rank_of = trace("rank_of[n]", "", holders(layout));
    //! [pairs]
    const IntegerMatrix pairs = trace(
        "pairs[r, s]",
        "1 * (" + all + "[:, None] == rank_of[None, :]) @ (" + n + "[None, :] <= " + n +
            "[:, None]) @ (rank_of[:, None] == " + all + "[None, :])",
        allowed_pairs(rank_of, ranks));
    //! [pairs]
    table.assign(ranks, {});
    std::int64_t waited = 0;
    std::string busiest;
    for (std::size_t k = 0; k < ranks; ++k) {
        const Trace hop = trace.scope("hop", k);
        //! [work]
        const Integers sources = hop("sources[r]", "", sources_at(k, ranks));
        Integers scores = integers(ranks);
        for (std::size_t rank = 0; rank < ranks; ++rank)
            scores(rank) = pairs(rank, sources(rank));
        scores = hop("scores[r]",
                     "sum(pairs * (sources[:, None] == " + all + "[None, :]), axis=1)",
                     scores);
        //! [work]
        for (std::size_t rank = 0; rank < ranks; ++rank)
            table[rank].push_back(static_cast<double>(scores(rank)));
        waited += *std::ranges::max_element(scores);
        busiest += (k == 0 ? "max(hop." : " + max(hop.") + std::to_string(k) + ".scores)";
    }
    return trace("waited", busiest, waited);
}

} // namespace attn
