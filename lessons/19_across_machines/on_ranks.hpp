#pragma once

// What each rank does, with attn::mpi.

#include "../memory.hpp"
#include "layer.hpp"

#include "attn/core/recorder.hpp"
#include "attn/engines/fast/attention.hpp"
#include "attn/engines/mpi/gather_recording.hpp"
#include "attn/engines/mpi/ring_attention.hpp"
#include "attn/engines/mpi/tensor_parallel.hpp"
#include "attn/engines/mpi/ulysses_attention.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace attn {

/// One rank of all.
struct Rank {
    MPI_Comm comm;
    std::size_t number = 0, ranks = 1;

    explicit Rank(MPI_Comm all) : comm(all)
    {
        int mine = 0, size = 1;
        MPI_Comm_rank(comm, &mine);
        MPI_Comm_size(comm, &size);
        number = static_cast<std::size_t>(mine);
        ranks = static_cast<std::size_t>(size);
    }
};

/// Rows of queries, keys or values, (1, h, n of this rank, d), in float32.
struct RankRows {
    std::array<std::size_t, 4> shape;
    std::vector<float> numbers;

    fast::HeadRows<const float> rows() const
    {
        return fast::head_rows<const float>(numbers.data(), shape);
    }
    fast::HeadRows<float> rows() { return fast::head_rows(numbers.data(), shape); }
};

/// This rank's rows of a whole (h, n, d).
inline RankRows rows_of(const Array& whole, const mpi::Layout& layout, const Rank& rank)
{
    const std::size_t h = whole.shape[0], n = whole.shape[1], d = whole.shape[2];
    RankRows mine{{1, h, layout.tokens(rank.number), d}, {}};
    for (std::size_t head = 0; head < h; ++head)
        for (const mpi::Chunk& chunk : layout.of_rank[rank.number])
            for (std::size_t i = 0; i < chunk.count * d; ++i)
                mine.numbers.push_back(
                    static_cast<float>(whole.values[(head * n + chunk.first) * d + i]));
    return mine;
}

/// A rank's part of attention, and room for its context.
struct Share {
    mpi::Layout layout;
    RankRows q, k, v, context;

    Share(const Recording& given, mpi::Layout of, const Rank& rank)
        : layout(std::move(of)),
          q(rows_of(given.steps[0].value, layout, rank)),
          k(rows_of(given.steps[1].value, layout, rank)),
          v(rows_of(given.steps[2].value, layout, rank)),
          context(v)
    {
    }
};

/// Each rank's number as a step, on rank 0.
inline void record_count(Recording& all, const std::string& path, std::size_t mine,
                         const Rank& rank)
{
    const auto number = static_cast<double>(mine);
    Step step{path, "", {"r"}, "", {}, {{rank.ranks}, std::vector<double>(rank.ranks)}};
    step.value.type = ElementType::integer;
    MPI_Gather(&number, 1, MPI_DOUBLE, step.value.values.data(), 1, MPI_DOUBLE, 0,
               rank.comm);
    all.steps.push_back(std::move(step));
}

inline void add_below(const std::string& scope, Recording found, Recording& all)
{
    for (Step& step : found.steps) {
        step.path = scope + "." + step.path;
        all.steps.push_back(std::move(step));
    }
    for (const Alias& alias : found.aliases)
        all.aliases.push_back({scope + "." + alias.path, scope + "." + alias.target});
}

inline void run_ring(const Recording& given, const Rank& rank, Recording& all)
{
    const std::size_t n = given.steps[0].value.shape[1];
    const MPI_Comm comm = rank.comm;
    //! [ring]
    const mpi::Layout layout = mpi::zigzag_layout(n, rank.ranks);
    Share mine(given, layout, rank); // this rank's queries, keys and values
    Recorder recorder;
    mpi::Traffic traffic;
    mpi::ring_attention(std::as_const(mine.q).rows(), std::as_const(mine.k).rows(),
                        std::as_const(mine.v).rows(), layout,
                        {.causal = Causal::bottom_right}, mine.context.rows(), {}, comm,
                        &traffic, Trace(recorder));
    add_below("ring", mpi::gather_recording(recorder.recording(), comm, layout), all);
    //! [ring]
    record_count(all, "ring.sent", traffic.total(), rank);
}

inline void run_ulysses(const Recording& given, const Rank& rank, Recording& all)
{
    const std::size_t n = given.steps[0].value.shape[1];
    const MPI_Comm comm = rank.comm;
    //! [ulysses]
    const mpi::Layout layout = mpi::contiguous_layout(n, rank.ranks);
    Share mine(given, layout, rank);
    Recorder recorder;
    mpi::Traffic traffic;
    mpi::ulysses_attention(std::as_const(mine.q).rows(), std::as_const(mine.k).rows(),
                           std::as_const(mine.v).rows(), layout,
                           {.causal = Causal::bottom_right}, mine.context.rows(), comm,
                           &traffic, Trace(recorder));
    add_below("ulysses", mpi::gather_recording(recorder.recording(), comm, layout), all);
    //! [ulysses]
    record_count(all, "ulysses.sent", traffic.total(), rank);
}

inline void run_layer(const Rank& rank, Recording& all)
{
    const MPI_Comm comm = rank.comm;
    //! [layer]
    const DrawnLayer drawn = draw_layer();
    const EncoderLayerWeights shard =
        mpi::encoder_layer_shard(drawn.weights, 4, rank.ranks, rank.number);
    Recorder recorder;
    mpi::Traffic traffic;
    mpi::tensor_parallel_encoder_layer(drawn.x, shard, drawn.options, comm, &traffic,
                                       Trace(recorder));
    add_below("layer", mpi::gather_recording(recorder.recording(), comm), all);
    //! [layer]
    record_count(all, "layer.sent", traffic.total(), rank);
}

/// The sizes at which memory is counted: lists of chunks and names weigh little there.
struct LongSequence {
    static constexpr std::size_t h = 4, n = 4096, d = 32;
};

/// The memory that ring and Ulysses attention to a longer sequence ask for.
inline void count_memory(const Rank& rank, Recording& all)
{
    constexpr std::size_t h = LongSequence::h, n = LongSequence::n, d = LongSequence::d;
    const Tensor3 x = RandomNumbers(19).tensor3(h, n, d);
    Recording drawn;
    drawn.steps.assign(3, {"x", "", {}, "", {}, to_array(x)});
    const fast::Scoring scoring{.causal = Causal::bottom_right};
    Share mine(drawn, mpi::zigzag_layout(n, rank.ranks), rank);
    const Share& share = mine;
    const double ring = mebibytes([&] {
        mpi::ring_attention(share.q.rows(), share.k.rows(), share.v.rows(), share.layout,
                            scoring, mine.context.rows(), {}, rank.comm);
    });
    const double ulysses = mebibytes([&] {
        mpi::ulysses_attention(share.q.rows(), share.k.rows(), share.v.rows(),
                               share.layout, scoring, mine.context.rows(), rank.comm);
    });
    record_count(all, "memory.ring", static_cast<std::size_t>(ring * 0x1p20), rank);
    record_count(all, "memory.ulysses", static_cast<std::size_t>(ulysses * 0x1p20), rank);
}

/// All of it.
/// @param given  queries, keys and values, (h, n, d) each
inline Recording work_of_rank(const Recording& given, MPI_Comm comm)
{
    const Rank rank(comm);
    Recording all;
    run_ring(given, rank, all);
    run_ulysses(given, rank, all);
    run_layer(rank, all);
    count_memory(rank, all);
    return all;
}

} // namespace attn
