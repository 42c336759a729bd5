#include "attn/fast/attention.hpp"

#include "attn/shape.hpp"
#include "call.hpp"
#include "traced.hpp"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace attn::fast {
namespace {

// ------------------------------------------------------------------------------------------------------------ validation

void expect_same(std::string_view axis, std::string_view left, const Const& a, std::string_view right, const Const& b,
                 std::size_t at)
{
    if (a.shape[at] == b.shape[at])
        return;
    const auto said = [](std::string_view name, const Const& x) {
        return std::string(name) + " " + to_string(Shape(x.shape.begin(), x.shape.end()));
    };
    throw ShapeError("fast::attention: " + said(left, a) + " and " + said(right, b) + " must agree in " +
                     std::string(axis));
}

void expect_fit(const Const& queries, const Const& keys, const Const& values, const Const& context,
                const Scoring& scoring, const SoftmaxSums& sums)
{
    expect_same("b", "queries", queries, "keys", keys, 0);
    expect_same("b", "keys", keys, "values", values, 0);
    expect_same("b", "queries", queries, "context", context, 0);
    expect_same("g", "keys", keys, "values", values, 1);
    expect_same("h", "queries", queries, "context", context, 1);
    expect_same("m", "keys", keys, "values", values, 2);
    expect_same("n", "queries", queries, "context", context, 2);
    expect_same("d_k", "queries", queries, "keys", keys, 3);
    expect_same("d_v", "values", values, "context", context, 3);
    const auto fail = [](const std::string& what) { throw ShapeError("fast::attention: " + what); };
    if (keys.heads() == 0 ? queries.heads() != 0 : queries.heads() % keys.heads() != 0)
        fail(std::to_string(queries.heads()) + " query heads can't be divided evenly among " +
             std::to_string(keys.heads()) + " key/value heads");
    if (!scoring.alibi_slopes.empty() && scoring.alibi_slopes.size() != queries.heads())
        fail(std::to_string(scoring.alibi_slopes.size()) + " slopes for " + std::to_string(queries.heads()) + " heads");
    if (!scoring.key_lengths.empty() && scoring.key_lengths.size() != queries.batch())
        fail(std::to_string(scoring.key_lengths.size()) + " lengths for " + std::to_string(queries.batch()) +
             " sequences");
    for (std::size_t b = 0; b < scoring.key_lengths.size(); ++b)
        if (scoring.key_lengths[b] < 0 || static_cast<std::size_t>(scoring.key_lengths[b]) > keys.rows())
            fail("key_lengths[" + std::to_string(b) + "] is " + std::to_string(scoring.key_lengths[b]) +
                 ", expected 0 to m = " + std::to_string(keys.rows()) + " keys");
    if (scoring.causal == Causal::by_length && scoring.key_lengths.empty() && queries.batch() != 0)
        throw Error("fast::attention: it is causal by length, and there are no key_lengths");
    const std::size_t all = queries.batch() * queries.heads() * queries.rows();
    for (const std::span<float>& given : {sums.largest, sums.sum})
        if (!given.empty() && given.size() != all)
            fail("sums of " + std::to_string(given.size()) + " numbers, expected b h n = " + std::to_string(all));
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
    const Positions positions(scoring, b, queries.rows(), keys.rows());
    KeyRange ranges[tile_rows];
    long of_alibi[tile_rows];
    for (std::size_t i = 0; i < rows; ++i) {
        ranges[i] = positions.keys(first + i);
        of_alibi[i] = positions.of_alibi(first + i);
    }
    attend_tile({.queries = queries.row(b, head, first),
                 .query_stride = queries.strides[2],
                 .rows = rows,
                 .d_k = queries.features(),
                 .d_v = values.features(),
                 .m = keys.rows(),
                 .packed_keys = packed.keys(slot),
                 .packed_values = packed.values(slot),
                 .scale = scoring.scale.value_or(1 / std::sqrt(static_cast<float>(queries.features()))),
                 .softcap = scoring.softcap.value_or(0),
                 .slope = scoring.alibi_slopes.empty() ? 0 : scoring.alibi_slopes[head],
                 .keys = ranges,
                 .positions = of_alibi,
                 .bias = scoring.bias ? scoring.bias.row(b, head, first) : nullptr,
                 .bias_stride = scoring.bias.strides[2],
                 .mask = scoring.mask ? scoring.mask.row(b, head, first) : nullptr,
                 .mask_stride = scoring.mask.strides[2],
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
    expect_fit(queries, keys, values, context, scoring, sums);
    const Call call{queries, keys, values, scoring, context, sums};
    if (trace.has_listener())
        return attend_traced(call, trace);
    const std::size_t all = queries.batch() * keys.heads();
    if (all == 0 || queries.rows() == 0)
        return;
    const std::size_t at_once = groups_at_once(call), per_group = call.heads_per_group() * call.query_tiles();
    const Packed packed(keys, values, at_once);

#pragma omp parallel
    {
        const Buffer scratch(call.scratch());
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
                            scratch.get());
            }
        }
    }
}

} // namespace attn::fast
