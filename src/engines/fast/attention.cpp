#include "attn/engines/fast/attention.hpp"

#include "call.hpp"
#include "expect.hpp"
#include "traced.hpp"

#include <omp.h>

#include <algorithm>

namespace attn::fast {
namespace {

void expect_sums_fit(const Call& call)
{
    for (const std::span<float>& given : {call.sums.largest, call.sums.sum})
        if (!given.empty())
            expect_sums("fast::attention", given, call.queries);
}

/// How many key/value heads are at work at a time: enough for all threads, and no more, since each needs memory.
std::size_t groups_at_once(const Call& call)
{
    constexpr std::size_t tasks_per_thread = 4;
    const std::size_t wanted = tasks_per_thread * static_cast<std::size_t>(omp_get_max_threads());
    const std::size_t tasks = std::max<std::size_t>(1, call.query_tiles() * call.heads_per_group());
    return std::clamp<std::size_t>(panels(wanted, tasks), 1, call.keys.batch() * call.keys.heads());
}

} // namespace

void Call::attend(const Packed& packed, std::size_t slot, std::size_t b, std::size_t head, std::size_t tile,
                  float* scratch, TileListener* listener) const
{
    const std::size_t first = tile * tile_rows, rows = std::min(tile_rows, queries.rows() - first);
    const std::size_t place = (b * queries.heads() + head) * queries.rows() + first;
    const ScoredRows scored(scoring, queries, keys, b, head, first, rows);
    attend_tile({.queries = queries.row(b, head, first),
                 .query_stride = queries.strides[2],
                 .rows = rows,
                 .d_k = queries.features(),
                 .d_v = values.features(),
                 .packed_keys = packed.keys(slot),
                 .packed_values = packed.values(slot),
                 .scoring = scored.get(),
                 .context = context.row(b, head, first),
                 .context_stride = context.strides[2],
                 .largest = sums.largest.empty() ? nullptr : &sums.largest[place],
                 .sum = sums.sum.empty() ? nullptr : &sums.sum[place],
                 .listener = listener},
                scratch);
}

void attention(const Const& queries, const Const& keys, const Const& values, const Scoring& scoring,
               const HeadRows<float>& context, const SoftmaxSums& sums, const Trace& trace)
{
    Buffer memory;
    attend_all({queries, keys, values, scoring, context, sums}, memory, trace);
}

void attend_all(const Call& call, Buffer& memory, const Trace& trace)
{
    const Const &queries = call.queries, &keys = call.keys, &values = call.values;
    expect_fit("fast::attention", queries, keys, values, call.context, call.scoring);
    expect_sums_fit(call);
    if (trace.has_listener())
        return attend_traced(call, trace);
    const std::size_t all = queries.batch() * keys.heads();
    if (all == 0 || queries.rows() == 0)
        return;
    const std::size_t at_once = groups_at_once(call), per_group = call.heads_per_group() * call.query_tiles();
    const std::size_t threads = static_cast<std::size_t>(omp_get_max_threads());
    float* const all_scratch = memory.grow(threads * call.scratch() + at_once * Packed::size(keys, values));
    const Packed packed(keys, values, all_scratch + threads * call.scratch());

#pragma omp parallel
    {
        float* const scratch = all_scratch + static_cast<std::size_t>(omp_get_thread_num()) * call.scratch();
        for (std::size_t first = 0; first < all; first += at_once) {
            const std::size_t count = std::min(at_once, all - first);
            const auto sequence = [&](std::size_t slot) { return (first + slot) / keys.heads(); };
            const auto group = [&](std::size_t slot) { return (first + slot) % keys.heads(); };

#pragma omp for schedule(static)
            for (std::size_t i = 0; i < count * packed.tiles(); ++i) {
                const std::size_t slot = i / packed.tiles();
                packed.pack(slot, sequence(slot), group(slot), i % packed.tiles());
            }

            // From the last query backwards: where it is causal, the last ones have the most keys.
#pragma omp for schedule(dynamic)
            for (std::size_t i = 0; i < count * per_group; ++i) {
                const std::size_t slot = i % count, in_group = i / count % call.heads_per_group();
                const std::size_t tile = call.query_tiles() - 1 - i / count / call.heads_per_group();
                call.attend(packed, slot, sequence(slot), group(slot) * call.heads_per_group() + in_group, tile,
                            scratch);
            }
        }
    }
}

} // namespace attn::fast
