#include "attn/engines/mpi/ring_attention.hpp"

#include "caught.hpp"
#include "test.hpp"
#include "whole.hpp"

#include "attn/core/error.hpp"
#include "attn/core/recorder.hpp"
#include "attn/engines/mpi/gather_recording.hpp"
#include "attn/formula/verify.hpp"

using namespace attn;
using namespace attn::formula;
using namespace attn::test;

namespace {

mpi::Traffic run(Shard& shard, const Trace& trace = {})
{
    mpi::Traffic traffic;
    mpi::ring_attention(shard.q(), shard.k(), shard.v(), shard.layout, shard.scoring, shard.o(), shard.sums(),
                        MPI_COMM_WORLD, &traffic, trace);
    return traffic;
}

Verdict context_of(const Whole& whole, const Shard& shard)
{
    return judged(shard.context, shard.layout, whole.shape.b, whole.shape.h, whole.shape.d_v,
                  [&](std::size_t b, std::size_t head) { return whole.context(b, head); });
}

} // namespace

TEST_CASE("ring attention is as near to exact numbers as float32 can be, for any layout and mask", "[mpi][ring]")
{
    for (const mpi::Layout& layout : layouts())
        for (const Drawing& drawing : drawings(layout.tokens())) {
            CAPTURE(to_text(layout), drawing.is_causal, drawing.has_mask, drawing.lengths);
            const Whole whole(layout.tokens(), drawing);
            Shard shard(whole, layout);
            const mpi::Traffic traffic = run(shard);
            const Verdict verdict = context_of(whole, shard);
            CHECK(verdict.worst <= 1);
            CHECK(verdict.largest_expected > 0);
            CHECK(verdict.largest_found > 0);
            CHECK(traffic.sent == mpi::predicted_ring_traffic(layout, whole.shape, this_rank()).sent);
        }
}

TEST_CASE("the sums of ring attention are those of all keys", "[mpi][ring]")
{
    const mpi::Layout layout = mpi::zigzag_layout(23, all_ranks());
    const Whole whole(23, {.is_causal = true, .has_mask = true});
    Shard shard(whole, layout);
    run(shard);
    const std::vector<float> largest = shard.largest, sum = shard.sum;
    std::vector<float> context(whole.grad_context.size()), m(2 * 23), l(2 * 23);
    const auto& [b, h, g, d_k, d_v] = whole.shape;
    fast::attention(fast::head_rows<const float>(whole.queries.data(), {b, h, 23, d_k}),
                    fast::head_rows<const float>(whole.keys.data(), {b, g, 23, d_k}),
                    fast::head_rows<const float>(whole.values.data(), {b, g, 23, d_v}), whole.scoring(),
                    fast::head_rows(context.data(), {b, h, 23, d_v}), {m, l});
    CHECK(rows_of_rank(m, layout, this_rank(), h, 1) == largest);
    const std::vector<float> expected = rows_of_rank(l, layout, this_rank(), h, 1);
    for (std::size_t i = 0; i < sum.size(); ++i)
        CHECK(sum[i] == Approx(expected[i]).epsilon(1e-5));
}

TEST_CASE("the ranks' traces of ring attention make one trace, whose steps follow from their formulas", "[mpi][ring]")
{
    for (const mpi::Layout& layout : layouts())
        for (const Drawing& drawing : drawings(layout.tokens())) {
            CAPTURE(to_text(layout), drawing.is_causal, drawing.has_mask, drawing.lengths);
            const Whole whole(layout.tokens(), drawing);
            Shard traced(whole, layout), untraced(whole, layout);
            Recorder recorder;
            run(traced, Trace(recorder));
            run(untraced);
            CHECK(traced.context == untraced.context);
            CHECK(traced.largest == untraced.largest);
            CHECK(traced.sum == untraced.sum);
            const Recording recording = mpi::gather_recording(recorder.recording(), MPI_COMM_WORLD, layout);
            if (this_rank() != 0)
                continue;
            const Verification verification = verify(recording);
            for (const StepCheck& check : verification.checks)
                if (!check.passed())
                    FAIL_CHECK(check.message);
            CHECK(recording.steps.back().path == "context");
            CHECK(verification.recomputed() >= 4);
        }
}

TEST_CASE("shapes that differ between ranks are found on every rank before anything is sent", "[mpi][ring]")
{
    const mpi::Layout layout = mpi::contiguous_layout(7, all_ranks());
    const auto error_of = [&](const Drawing& drawing, const mpi::Layout& mine) {
        const Whole whole(7, drawing);
        Shard shard(whole, mine);
        return caught<Error>([&] { run(shard); }, "nothing");
    };
    const bool is_last = this_rank() + 1 == all_ranks();
    const std::string last = "rank " + std::to_string(all_ranks() - 1);
    if (all_ranks() > 1) {
        CHECK(error_of({.shape = {1, 2, 2, is_last ? 6U : 5U, 3}}, layout) ==
              "mpi::ring_attention: " + last + " has d_k = 6 and rank 0 has 5; all ranks must agree");
        CHECK_THAT(error_of({}, is_last ? mpi::zigzag_layout(7, all_ranks()) : layout),
                   ContainsSubstring(last + " has the layout's checksum"));
        CHECK(error_of({.lengths = {is_last ? 8 : 7}}, layout) ==
              "mpi::ring_attention: " + last + ": a length is 8, expected 0 to 7 keys");
    }
    CHECK(error_of({.shape = {1, 3, 2, 5, 3}}, layout) ==
          "mpi::ring_attention: rank 0: 3 query heads can't be divided evenly among 2 key/value heads");
    CHECK_THAT(error_of({}, mpi::contiguous_layout(7, all_ranks() + 1)), ContainsSubstring("a layout of"));
}
