#include "attn/engines/mpi/ulysses_attention.hpp"

#include "test.hpp"
#include "whole.hpp"

#include "attn/core/error.hpp"
#include "attn/core/recorder.hpp"
#include "attn/engines/mpi/gather_recording.hpp"
#include "attn/formula/verify.hpp"

using namespace attn;
using namespace attn::formula;
using namespace attn::test;

TEST_CASE("Ulysses attention is as near to exact numbers as float32 can be, and its ranks' traces make one", "[mpi]")
{
    for (const mpi::Layout& layout : layouts())
        for (const Drawing& drawing : drawings(layout.tokens())) {
            CAPTURE(to_text(layout), drawing.is_causal, drawing.has_mask, drawing.lengths);
            const Whole whole(layout.tokens(), drawing);
            Shard shard(whole, layout), traced(whole, layout);
            mpi::Traffic traffic;
            mpi::ulysses_attention(shard.q(), shard.k(), shard.v(), layout, whole.scoring(), shard.o(), MPI_COMM_WORLD,
                                   &traffic);
            const Verdict verdict = judged(shard.context, layout, whole.shape.b, whole.shape.h, whole.shape.d_v,
                                           [&](std::size_t b, std::size_t head) { return whole.context(b, head); });
            CHECK(verdict.worst <= 1);
            CHECK(verdict.largest_expected > 0);
            CHECK(verdict.largest_found > 0);
            CHECK(traffic.sent == mpi::predicted_ulysses_traffic(layout, whole.shape, this_rank()).sent);

            Recorder recorder;
            mpi::ulysses_attention(traced.q(), traced.k(), traced.v(), layout, whole.scoring(), traced.o(),
                                   MPI_COMM_WORLD, nullptr, Trace(recorder));
            CHECK(traced.context == shard.context);
            const Recording recording = mpi::gather_recording(recorder.recording(), MPI_COMM_WORLD, layout);
            if (this_rank() != 0)
                continue;
            for (const StepCheck& check : verify(recording).checks)
                if (!check.passed())
                    FAIL_CHECK(check.message);
            CHECK(recording.steps.back().path == "context");
        }
}

TEST_CASE("every head is computed by one rank, with the key/value heads that serve it", "[mpi]")
{
    for (const std::size_t g : {1, 2, 3, 4})
        for (const std::size_t per_group : {1, 2, 3})
            for (const std::size_t ranks : {1, 2, 3, 5, 7, 16}) {
                const mpi::AttentionShape shape{.h = g * per_group, .g = g};
                std::size_t next = 0;
                for (std::size_t rank = 0; rank < ranks; ++rank) {
                    const mpi::HeadShare share = mpi::head_share(shape, ranks, rank);
                    if (share.count == 0)
                        continue;
                    CHECK(share.first == next);
                    next += share.count;
                    CHECK(share.first_group == share.first / per_group);
                    CHECK(share.first_group + share.groups - 1 == (next - 1) / per_group);
                    CHECK(share.count % share.groups == 0);
                }
                CHECK(next == shape.h);
            }
}

TEST_CASE("Ulysses attention gives the bits of one machine", "[mpi]")
{
    for (const Drawing& drawing : drawings(11)) {
        const mpi::Layout layout = mpi::zigzag_layout(11, all_ranks());
        const Whole whole(11, drawing);
        Shard shard(whole, layout);
        mpi::ulysses_attention(shard.q(), shard.k(), shard.v(), layout, whole.scoring(), shard.o(), MPI_COMM_WORLD);
        const auto& [b, h, g, d_k, d_v] = whole.shape;
        std::vector<float> context(whole.grad_context.size());
        fast::attention(fast::head_rows<const float>(whole.queries.data(), {b, h, 11, d_k}),
                        fast::head_rows<const float>(whole.keys.data(), {b, g, 11, d_k}),
                        fast::head_rows<const float>(whole.values.data(), {b, g, 11, d_v}), whole.scoring(),
                        fast::head_rows(context.data(), {b, h, 11, d_v}));
        CHECK(shard.context == rows_of_rank(context, layout, this_rank(), b * h, d_v));
    }
}
