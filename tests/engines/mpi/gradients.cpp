// The backward pass of both ways to divide attention is that of the trace of all ranks.
#include "attn/engines/mpi/gather_recording.hpp"
#include "attn/engines/mpi/ring_attention.hpp"
#include "attn/engines/mpi/ulysses_attention.hpp"

#include "test.hpp"
#include "whole.hpp"

#include "attn/core/recorder.hpp"
#include "attn/formula/gradient.hpp"

#include <algorithm>

using namespace attn;
using namespace attn::test;

namespace {

/// The gradients of all ranks' queries, keys or values are those of the equations in double. The ranks' numbers are rounded to
/// float32 before they are differentiated, which the bound of the equations' own errors leaves out.
template <class Expected>
void check(const Recording& gradients, const mpi::Layout& layout, const std::string& step, const Expected& expected)
{
    constexpr double allowed = 4;
    for (std::size_t rank = 0; rank < layout.ranks(); ++rank) {
        if (layout.tokens(rank) == 0)
            continue;
        const std::string path = "grad.rank." + std::to_string(rank) + "." + step;
        const auto found = std::ranges::find(gradients.steps, path, &Step::path);
        CAPTURE(path);
        REQUIRE(found != gradients.steps.end());
        const Array& grad = found->value;
        std::size_t at = 0;
        for (std::size_t b = 0; b < grad.shape[0]; ++b)
            for (std::size_t head = 0; head < grad.shape[1]; ++head) {
                const formula::Evaluated right = expected(b, head);
                for (const mpi::Chunk& chunk : layout.of_rank[rank])
                    for (std::size_t i = chunk.first * grad.shape[3]; i < (chunk.first + chunk.count) * grad.shape[3];
                         ++i)
                        CHECK(std::abs(grad.values[at++] - right.value.values[i]) <= allowed * right.error[i]);
            }
    }
}

} // namespace

TEST_CASE("the gradients of the trace of all ranks are those of the equations", "[mpi][ring][ulysses]")
{
    const mpi::Layout layout = mpi::zigzag_layout(11, all_ranks());
    for (const bool is_ring : {true, false})
        for (const Drawing& drawing : drawings(layout.tokens())) {
            if (is_ring && !drawing.lengths.empty())
                continue; // a query that has met padding alone divides 0 by 0
            CAPTURE(is_ring, drawing.is_causal, drawing.has_mask, drawing.lengths);
            const Whole whole(layout.tokens(), drawing);
            const auto& [b, h, g, d_k, d_v] = whole.shape;
            Shard shard(whole, layout);
            Recorder mine;
            if (is_ring)
                mpi::ring_attention(shard.q(), shard.k(), shard.v(), layout, shard.scoring, shard.o(), shard.sums(),
                                    MPI_COMM_WORLD, nullptr, Trace(mine));
            else
                mpi::ulysses_attention(shard.q(), shard.k(), shard.v(), layout, whole.scoring(), shard.o(),
                                       MPI_COMM_WORLD, nullptr, Trace(mine));
            const Recording all = mpi::gather_recording(mine.recording(), MPI_COMM_WORLD, layout);
            if (this_rank() != 0)
                continue;
            const Array seed{{b, h, whole.n, d_v}, {whole.grad_context.begin(), whole.grad_context.end()}};
            const Recording gradients = formula::gradients(all, {.of = "context", .seed = seed});
            check(gradients, layout, "queries", [&](auto of, auto head) { return whole.grad_queries(of, head); });
            check(gradients, layout, "keys", [&](auto of, auto group) { return whole.grad_keys(of, group); });
            check(gradients, layout, "values", [&](auto of, auto group) { return whole.grad_values(of, group); });
        }
}
