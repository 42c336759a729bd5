#pragma once

// The bytes that each rank sends, and the memory that it needs, predicted.

#include "../lesson.hpp"
#include "work.hpp"

#include "attn/engines/mpi/layout.hpp"
#include "attn/engines/mpi/ulysses_attention.hpp"

namespace attn {

/// What the three ways are predicted to send, by rank.
struct Bytes {
    Integers ring, ulysses, sums;
};

/// Sizes that decide: h heads of as many key/value heads, on n tokens.
struct Sizes {
    std::size_t h, n, d_k, d_v;
    std::size_t d_model, layer_tokens; ///< of the layer that is divided
};

inline Integers tokens_of(const mpi::Layout& layout)
{
    Integers tokens = integers(layout.ranks());
    for (std::size_t rank = 0; rank < layout.ranks(); ++rank)
        tokens(rank) = static_cast<std::int64_t>(layout.tokens(rank));
    return tokens;
}

inline Integers heads_of(const Sizes& sizes, std::size_t ranks)
{
    Integers heads = integers(ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank)
        heads(rank) = static_cast<std::int64_t>(
            mpi::head_share({1, sizes.h, sizes.h, sizes.d_k, sizes.d_v}, ranks, rank)
                .count);
    return heads;
}

/// The block that each rank is not sent on: that of the rank after it, which comes last.
inline Integers of_next(const Integers& block)
{
    Integers next = integers(block.size());
    for (std::size_t rank = 0; rank < block.size(); ++rank)
        next(rank) = block((rank + 1) % block.size());
    return next;
}

inline std::int64_t total(const Integers& numbers)
{
    std::int64_t sum = 0;
    for (const std::int64_t number : numbers)
        sum += number;
    return sum;
}

/// Predicts what each rank sends in a forward pass.
inline Bytes predict_bytes(const Trace& trace, const Sizes& sizes,
                           const mpi::Layout& ring, const mpi::Layout& ulysses)
{
    const auto given = [&](std::string_view name, std::size_t size) {
        return trace(name, "", static_cast<std::int64_t>(size));
    };
    const std::int64_t h = given("h", sizes.h), n = given("n", sizes.n),
                       d_k = given("d_k", sizes.d_k), d_v = given("d_v", sizes.d_v),
                       d_model = given("d_model", sizes.d_model),
                       layer_tokens = given("layer_tokens", sizes.layer_tokens);
    const Integers ring_tokens = trace("ring_tokens[r]", "", tokens_of(ring));
    const Integers tokens = trace("tokens[r]", "", tokens_of(ulysses));
    const Integers heads = trace("heads[r]", "", heads_of(sizes, ring.ranks()));
    //! [bytes]
    const Integers block = trace("block[r]", "4 * h * ring_tokens * (d_k + d_v)",
                                 Integers(4 * h * ring_tokens * (d_k + d_v)));
    const Integers by_ring =
        trace("ring[r]", "sum(block) - concat(block[1:], block[0:1], axis=0)",
              Integers(total(block) - of_next(block)));
    const Integers there = trace("there[r]", "4 * tokens * (h - heads) * (2 * d_k + d_v)",
                                 Integers(4 * tokens * (h - heads) * (2 * d_k + d_v)));
    const Integers back = trace("back[r]", "4 * (n - tokens) * heads * d_v",
                                Integers(4 * (n - tokens) * heads * d_v));
    const Integers by_ulysses =
        trace("ulysses[r]", "there + back", Integers(there + back));
    //! [bytes]
    const std::string none = ring.ranks() > 1 ? "" : "0 * "; // alone, nothing is sent
    const Integers sums = trace(
        "sums[r]", none + "2 * 8 * layer_tokens * d_model * (0 * tokens + 1)",
        Integers((none.empty() ? 2 : 0) * 8 * layer_tokens * d_model * (0 * tokens + 1)));
    return {by_ring, by_ulysses, sums};
}

/// MiB that one rank sends and holds for one layer, by the number of ranks.
inline void predict_growth(Lesson& lesson, const Trace& prediction)
{
    const Trace trace = prediction.scope("growth");
    const double n = trace("n", "", 131072.0), h = trace("h", "", 32.0),
                 d = trace("d", "", 128.0);
    const Vector ranks = trace("ranks[i]", "", Vector{2, 4, 8, 16, 32});
    //! [growth]
    const Vector own = trace("own[i]", "4 * n / ranks * h * d / 2 ** 20",
                             Vector(4.0 * n / ranks * h * d / 0x1p20));
    const Vector ring =
        trace("ring[i]", "2 * own * (ranks - 1)", Vector(2.0 * own * (ranks - 1.0)));
    const Vector ulysses = trace("ulysses[i]", "4 * own * (ranks - 1) / ranks",
                                 Vector(4.0 * own * (ranks - 1.0) / ranks));
    const Vector sums = trace("sums[i]", "2 * 2 * own * (ranks - 1)",
                              Vector(2.0 * 2.0 * own * (ranks - 1.0)));
    const Vector ring_holds = trace("ring_holds[i]", "6 * own", Vector(6.0 * own));
    const Vector ulysses_holds = trace("ulysses_holds[i]", "8 * own", Vector(8.0 * own));
    const Vector sums_hold =
        trace("sums_hold[i]", "(ranks + 4) * own", Vector((ranks + 4.0) * own));
    //! [growth]
    std::vector<std::vector<double>> rows;
    for (std::size_t i = 0; i < ranks.size(); ++i)
        rows.push_back({ranks(i), ring(i), ulysses(i), sums(i), ring_holds(i),
                        ulysses_holds(i), sums_hold(i)});
    lesson.table({"ranks", "MiB sent: ring", "Ulysses", "tensor parallel", "held: ring",
                  "Ulysses", "tensor parallel"},
                 rows);
}

} // namespace attn
