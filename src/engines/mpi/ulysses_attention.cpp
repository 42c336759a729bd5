#include "attn/engines/mpi/ulysses_attention.hpp"

#include "attn/core/shape.hpp"
#include "communicator.hpp"
#include "even.hpp"
#include "exchange.hpp"
#include "traced_ring.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <utility>

namespace attn::mpi {
namespace {

constexpr std::string_view ulysses = "mpi::ulysses_attention";

/// Which of so many parts i is in, when they divide [0, all).
std::size_t part_with(std::size_t all, std::size_t parts, std::size_t i)
{
    std::size_t part = 0;
    while (even_part(all, parts, part).first + even_part(all, parts, part).count <= i)
        ++part;
    return part;
}

/// The scoring of some heads, from that of all.
fast::Scoring of_share(fast::Scoring scoring, const HeadShare& share)
{
    if (scoring.mask)
        scoring.mask.numbers += share.first * scoring.mask.strides[1];
    if (scoring.bias)
        scoring.bias.numbers += share.first * scoring.bias.strides[1];
    if (!scoring.alibi_slopes.empty())
        scoring.alibi_slopes = scoring.alibi_slopes.subspan(share.first, share.count);
    return scoring;
}

/// A rank's heads of all tokens.
struct Heads {
    Heads(const HeadShare& of_rank, const AttentionShape& shape, std::size_t n)
        : share(of_rank),
          numbers(shape.b * n * (share.count * (shape.d_k + shape.d_v) + share.groups * (shape.d_k + shape.d_v)))
    {
        float* next = numbers.data();
        const auto rows = [&](std::size_t heads, std::size_t features) {
            const std::array<std::size_t, 4> all{shape.b, heads, n, features};
            return fast::head_rows(std::exchange(next, next + shape.b * heads * n * features), all);
        };
        queries = rows(share.count, shape.d_k);
        keys = rows(share.groups, shape.d_k);
        values = rows(share.groups, shape.d_v);
        context = rows(share.count, shape.d_v);
    }

    HeadShare share;
    std::vector<float> numbers;
    HeadRows<float> queries, keys, values, context; ///< (b, heads, n, d) each
};

std::string range_of(std::size_t first, std::size_t count)
{
    return std::to_string(first) + ":" + std::to_string(first + count);
}

/// Heads of all ranks' tokens, in the order of tokens: "concat(rank.0.keys[:, 0:1, 0:3], …, axis=2)".
std::string from_tokens(const Layout& layout, const std::string& step, const std::string& heads)
{
    std::map<std::size_t, std::string> parts; // by the first token
    for (std::size_t rank = 0; rank < layout.ranks(); ++rank) {
        std::size_t row = 0;
        for (const Chunk& chunk : layout.of_rank[rank]) {
            if (chunk.count != 0)
                parts[chunk.first] = "rank." + std::to_string(rank) + "." + step + "[:, " + heads + ", " +
                                     range_of(row, chunk.count) + "], ";
            row += chunk.count;
        }
    }
    return std::accumulate(parts.begin(), parts.end(), std::string("concat("),
                           [](const std::string& all, const auto& part) { return all + part.second; }) +
           "axis=2)";
}

/// A rank's tokens of all ranks' heads: "concat(rank.0.heads.context[:, :, 0:3], …, axis=1)".
std::string from_heads(const std::vector<Chunk>& chunks, const AttentionShape& shape, std::size_t ranks)
{
    std::string formula = "concat(";
    for (std::size_t rank = 0; rank < ranks; ++rank) {
        if (head_share(shape, ranks, rank).count == 0)
            continue;
        std::string rows;
        for (const Chunk& chunk : chunks)
            if (chunk.count != 0)
                rows += "rank." + std::to_string(rank) + ".heads.context[:, :, " + range_of(chunk.first, chunk.count) +
                        "], ";
        formula += chunks.size() > 1 ? "concat(" + rows + "axis=2), " : rows;
    }
    return formula + "axis=1)";
}

/// Checks what ranks don't have to agree on.
void expect_fit(const AttentionShape& shape, std::size_t rows, const Layout& layout, const fast::Scoring& scoring,
                const HeadRows<float>& context)
{
    expect_shapes({{"context", context.shape, {shape.b, shape.h, rows, shape.d_v}}});
    if (!scoring.alibi_slopes.empty() && scoring.alibi_slopes.size() != shape.h)
        throw ShapeError(scoring.alibi_slopes.size(), " slopes for ", shape.h, " heads");
    const std::size_t per_token = shape.b * (shape.h + shape.g) * (shape.d_k + shape.d_v);
    message_size(ulysses, layout.tokens() * per_token); // no rank has more to send or get
}

void attend(const Heads& heads, const Layout& layout, const fast::Scoring& scoring, const Trace& of_rank)
{
    if (heads.share.count == 0 || layout.tokens() == 0)
        return;
    const Trace trace = of_rank.scope("heads");
    const auto record = [&](std::string_view step, const char* name, std::size_t first, std::size_t count,
                            const Const& rows) {
        fast::record(
            trace, step, [&] { return from_tokens(layout, name, range_of(first, count)); }, rows);
    };
    const HeadShare& share = heads.share;
    record("queries[b, h, n, d_k]", "queries", share.first, share.count, heads.queries);
    record("keys[b, g, m, d_k]", "keys", share.first_group, share.groups, heads.keys);
    record("values[b, g, m, d_v]", "values", share.first_group, share.groups, heads.values);
    fast::attention(heads.queries, heads.keys, heads.values, of_share(scoring, share), heads.context, {}, trace);
}

} // namespace

HeadShare head_share(const AttentionShape& shape, std::size_t ranks, std::size_t rank)
{
    const std::size_t per_group = shape.h / shape.g;
    if (ranks <= shape.g) {
        const Chunk groups = even_part(shape.g, ranks, rank);
        return {groups.first * per_group, groups.count * per_group, groups.first, groups.count};
    }
    const std::size_t group = part_with(ranks, shape.g, rank);
    const Chunk of_group = even_part(ranks, shape.g, group);
    const Chunk heads = even_part(per_group, of_group.count, rank - of_group.first);
    return {group * per_group + heads.first, heads.count, group, heads.count == 0 ? std::size_t{0} : 1};
}

void ulysses_attention(const Const& queries, const Const& keys, const Const& values, const Layout& layout,
                       const fast::Scoring& scoring, const HeadRows<float>& context, MPI_Comm comm, Traffic* traffic,
                       const Trace& caller)
{
    const AttentionShape shape = attention_shape(queries, keys, values);
    agree_on_attention(comm, ulysses, layout, queries, keys, values, scoring,
                       [&] { expect_fit(shape, queries.rows(), layout, scoring, context); });
    abort_on_error(comm, ulysses, [&] {
        const Exchange exchange(comm, layout, shape);
        const Trace named = caller.observing().module(ulysses, [&] { return describe(scoring, layout); });
        const std::size_t rank = rank_in(comm);
        const Trace of_rank = named.scope("rank", rank);
        const Trace of_tokens = layout.tokens(rank) == 0 ? Trace() : of_rank;
        fast::record_input(of_tokens, "queries[b, h, n, d_k]", queries);
        fast::record_input(of_tokens, "keys[b, g, n, d_k]", keys);
        fast::record_input(of_tokens, "values[b, g, n, d_v]", values);

        // Exchange tokens for heads, attend, and exchange back.
        const Heads heads(exchange.share(), shape, layout.tokens());
        const std::size_t there =
            exchange.to_heads({{queries, heads.queries}, {keys, heads.keys, true}, {values, heads.values, true}});
        attend(heads, layout, scoring, of_rank);
        const std::size_t back = exchange.to_tokens({{heads.context, context}});
        fast::record(
            of_tokens, "context[b, h, n, d_v]", [&] { return from_heads(layout.of_rank[rank], shape, layout.ranks()); },
            context);
        if (traffic != nullptr)
            *traffic = {{there, back}};
    });
}

namespace {

/// How many numbers per token and sequence a rank's heads have: queries with keys and values, and contexts.
std::size_t inputs_of(const AttentionShape& shape, const HeadShare& share)
{
    return share.count * shape.d_k + share.groups * (shape.d_k + shape.d_v);
}

template <class F>
std::size_t over_others(const Layout& layout, const AttentionShape& shape, std::size_t rank, const F& f)
{
    std::size_t sum = 0;
    for (std::size_t other = 0; other < layout.ranks(); ++other)
        if (other != rank)
            sum += f(head_share(shape, layout.ranks(), other));
    return sum;
}

} // namespace

Traffic predicted_ulysses_traffic(const Layout& layout, const AttentionShape& shape, std::size_t rank)
{
    const std::size_t n = layout.tokens(rank), bytes = sizeof(float) * shape.b;
    const HeadShare mine = head_share(shape, layout.ranks(), rank);
    return {
        {bytes * n * over_others(layout, shape, rank, [&](const HeadShare& share) { return inputs_of(shape, share); }),
         bytes * (layout.tokens() - n) * mine.count * shape.d_v}};
}

std::size_t predicted_ulysses_memory(const Layout& layout, const AttentionShape& shape, std::size_t rank)
{
    const std::size_t n = layout.tokens(rank), all = layout.tokens();
    const HeadShare mine = head_share(shape, layout.ranks(), rank);
    const std::size_t kept = all * (inputs_of(shape, mine) + mine.count * shape.d_v);
    const std::size_t others =
        over_others(layout, shape, rank, [&](const HeadShare& share) { return inputs_of(shape, share); });
    const std::size_t there = n * (others + inputs_of(shape, mine)) + all * inputs_of(shape, mine);
    const std::size_t back = all * mine.count * shape.d_v + n * shape.h * shape.d_v;
    return sizeof(float) * shape.b * (kept + std::max(there, back));
}

} // namespace attn::mpi
