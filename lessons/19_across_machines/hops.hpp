#pragma once

// One rank's queries meet the keys of all parts, one part per hop, in double.

#include "../lesson.hpp"

#include "attn/engines/mpi/layout.hpp"
#include "attn/reference/ops/matmul.hpp"
#include "attn/reference/ops/reduce.hpp"
#include "attn/reference/ops/softmax.hpp"

#include <cmath>
#include <string>
#include <tuple>
#include <vector>

namespace attn {

/// As a formula has them: 2:4
inline std::string range_of(const mpi::Chunk& part)
{
    return std::to_string(part.first) + ":" + std::to_string(part.first + part.count);
}

inline Matrix rows(const Matrix& x, const mpi::Chunk& part)
{
    return xt::view(x, xt::range(part.first, part.first + part.count), xt::all());
}

/// A number per row, as a column.
inline Matrix column(const Vector& numbers)
{
    return xt::view(numbers, xt::all(), xt::newaxis());
}

/// One head on the whole sequence.
struct Head {
    Matrix queries, keys, values;
};

/// What attention to some of the keys gives, per query: m, l, and the context, which is
/// divided by l already.
struct Partial {
    Vector largest, sum;
    Matrix context;
};

/// Attention of the queries of one part to the keys of one part, under a causal mask.
inline Partial attend(const Trace& hop, const Head& head, const mpi::Chunk& asking,
                      const mpi::Chunk& part)
{
    const double root = std::sqrt(static_cast<double>(head.keys.shape(1)));
    const std::string keys = range_of(part), queries = range_of(asking);
    const auto positions = [](const mpi::Chunk& of) {
        return Vector(xt::arange<double>(static_cast<double>(of.first),
                                         static_cast<double>(of.first + of.count)));
    };
    const Vector key_positions = positions(part);
    //! [hop]
    const Mask mask = hop(
        "mask[n, m]", "positions[None, " + keys + "] <= positions[" + queries + ", None]",
        Mask(xt::view(key_positions, xt::newaxis(), xt::all()) <=
             column(positions(asking))));
    const Matrix scores =
        hop("scores[n, m]",
            "queries[" + queries + "] @ keys[" + keys + "].T / sqrt(keys.shape[1])",
            Matrix(matmul(rows(head.queries, asking), transpose(rows(head.keys, part))) /
                   root));
    const Matrix masked = hop("masked[n, m]", "where(mask, scores, -inf)",
                              Matrix(xt::where(mask, scores, -INFINITY)));
    const Vector largest = hop("largest[n]", "max(masked, axis=1)", max_along(masked, 1));
    const Vector sum = hop("sum[n]", "sum(exp(masked - largest[:, None]), axis=1)",
                           sum_along(Matrix(xt::exp(masked - column(largest))), 1));
    const Matrix context =
        hop("context[n, d_v]", "softmax(masked) @ values[" + keys + "]",
            matmul(softmax(masked), rows(head.values, part)));
    //! [hop]
    return {largest, sum, context};
}

/// Attention to the keys of both.
inline Partial merge(const Trace& hop, const Partial& before, const Partial& now)
{
    //! [merge]
    const Vector largest = hop("merged_largest[n]",
                               "where(largest_before > largest, largest_before, largest)",
                               Vector(xt::maximum(before.largest, now.largest)));
    const Vector share_before =
        hop("share_before[n]", "sum_before * exp(largest_before - merged_largest)",
            Vector(before.sum * xt::exp(before.largest - largest)));
    const Vector share = hop("share[n]", "sum * exp(largest - merged_largest)",
                             Vector(now.sum * xt::exp(now.largest - largest)));
    const Vector sum =
        hop("merged_sum[n]", "share_before + share", Vector(share_before + share));
    const Matrix context =
        hop("merged_context[n, d_v]",
            "(share_before[:, None] * context_before + share[:, None] * context) / "
            "merged_sum[:, None]",
            Matrix((column(share_before) * before.context + column(share) * now.context) /
                   column(sum)));
    //! [merge]
    return {largest, sum, context};
}

/// The hops of one rank: what each found, and what was merged so far.
struct Hops {
    std::vector<std::size_t> number; ///< of each: a hop of a part without tokens is none
    std::vector<Partial> found, merged;
};

/// All hops of a rank around the ring: at hop k it has the keys of rank - k.
inline Hops go_around(const Trace& trace, const Head& head, const mpi::Layout& layout,
                      std::size_t rank)
{
    const auto part_of = [&](std::size_t r) { return layout.of_rank[r].front(); };
    Hops hops;
    for (std::size_t k = 0; k <= rank; ++k) { // later parts are masked
        const std::string before =
            k == 0 ? "" : "hop." + std::to_string(k - 1) + ".merged_";
        const Trace hop = k == 0 ? trace.scope("hop", k)
                                 : trace.scope("hop", k,
                                               {{"largest_before", before + "largest"},
                                                {"sum_before", before + "sum"},
                                                {"context_before", before + "context"}});
        hops.number.push_back(k);
        hops.found.push_back(attend(hop, head, part_of(rank), part_of(rank - k)));
        if (k == 0) {
            hop.alias("merged_largest", "largest");
            hop.alias("merged_sum", "sum");
            hop.alias("merged_context", "context");
        }
        hops.merged.push_back(k == 0 ? hops.found[0]
                                     : merge(hop, hops.merged.back(), hops.found[k]));
    }
    return hops;
}

} // namespace attn
