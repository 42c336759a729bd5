// Gradients of both ways to divide attention, against the equations in double.
#include "attn/engines/mpi/ring_attention.hpp"
#include "attn/engines/mpi/ring_attention_backward.hpp"
#include "attn/engines/mpi/ulysses_attention.hpp"

#include "test.hpp"
#include "whole.hpp"

using namespace attn;
using namespace attn::test;

namespace {

/// The gradients of one rank's tokens.
struct Gradients {
    explicit Gradients(const Shard& shard)
        : shard_(shard), queries(shard.queries.size(), -7), keys(shard.keys.size(), -7), values(shard.values.size(), -7)
    {
    }
    fast::HeadRows<float> q() { return fast::head_rows(queries.data(), shard_.of_queries); }
    fast::HeadRows<float> k() { return fast::head_rows(keys.data(), shard_.of_keys); }
    fast::HeadRows<float> v() { return fast::head_rows(values.data(), shard_.of_values); }

private:
    const Shard& shard_;

public:
    std::vector<float> queries, keys, values;
};

fast::HeadRows<const float> grad_context(const Shard& shard)
{
    return fast::head_rows<const float>(shard.grad_context.data(), shard.of_context);
}

/// The model's error bound is of the formula with exact weights; the kernel's D is computed from a rounded context.
constexpr double allowed = 4;

void check(const Whole& whole, const mpi::Layout& layout, const Gradients& found)
{
    const mpi::AttentionShape& shape = whole.shape;
    const Verdict of_queries = judged(found.queries, layout, shape.b, shape.h, shape.d_k,
                                      [&](auto b, auto head) { return whole.grad_queries(b, head); });
    const Verdict of_keys = judged(found.keys, layout, shape.b, shape.g, shape.d_k,
                                   [&](auto b, auto group) { return whole.grad_keys(b, group); });
    const Verdict of_values = judged(found.values, layout, shape.b, shape.g, shape.d_v,
                                     [&](auto b, auto group) { return whole.grad_values(b, group); });
    CHECK(of_queries.worst <= allowed);
    CHECK(of_keys.worst <= allowed);
    CHECK(of_values.worst <= allowed);
    CHECK(of_values.largest_expected > 0);
    CHECK(of_values.largest_found > 0);
    if (layout.tokens() > 2) { // the softmax of one score is constant
        CHECK(of_queries.largest_expected > 0);
        CHECK(of_queries.largest_found > 0);
        CHECK(of_keys.largest_expected > 0);
        CHECK(of_keys.largest_found > 0);
    }
}

} // namespace

TEST_CASE("the gradients of ring attention are those of the equations, for any layout and mask", "[mpi][ring]")
{
    for (const mpi::Layout& layout : layouts())
        for (const Drawing& drawing : drawings(layout.tokens())) {
            CAPTURE(to_text(layout), drawing.is_causal, drawing.has_mask, drawing.lengths);
            const Whole whole(layout.tokens(), drawing);
            Shard shard(whole, layout);
            mpi::ring_attention(shard.q(), shard.k(), shard.v(), layout, shard.scoring, shard.o(), shard.sums(),
                                MPI_COMM_WORLD);
            Gradients found(shard);
            mpi::Traffic traffic;
            mpi::ring_attention_backward(shard.q(), shard.k(), shard.v(), layout, shard.scoring, shard.o(),
                                         {shard.largest, shard.sum}, grad_context(shard), found.q(), found.k(),
                                         found.v(), MPI_COMM_WORLD, &traffic);
            check(whole, layout, found);
            CHECK(traffic.sent == mpi::predicted_ring_backward_traffic(layout, whole.shape, this_rank()).sent);
        }
}

TEST_CASE("the gradients of Ulysses attention are those of the equations, for any layout and mask", "[mpi][ulysses]")
{
    for (const mpi::Layout& layout : layouts())
        for (const Drawing& drawing : drawings(layout.tokens())) {
            CAPTURE(to_text(layout), drawing.is_causal, drawing.has_mask, drawing.lengths);
            const Whole whole(layout.tokens(), drawing);
            Shard shard(whole, layout);
            const mpi::UlyssesHeads heads = mpi::ulysses_attention(shard.q(), shard.k(), shard.v(), layout,
                                                                   whole.scoring(), shard.o(), MPI_COMM_WORLD);
            Gradients found(shard);
            mpi::Traffic traffic;
            mpi::ulysses_attention_backward(heads, layout, whole.scoring(), grad_context(shard), found.q(), found.k(),
                                            found.v(), MPI_COMM_WORLD, &traffic);
            check(whole, layout, found);
            CHECK(traffic.sent == mpi::predicted_ulysses_backward_traffic(layout, whole.shape, this_rank()).sent);
        }
}
