#include "attn/engines/mpi/ulysses_attention.hpp"

#include "attn/core/shape.hpp"
#include "attn/engines/fast/attention_backward.hpp"
#include "communicator.hpp"
#include "even.hpp"
#include "exchange.hpp"
#include "traced_ring.hpp"

#include <algorithm>
#include <map>
#include <numeric>

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

/// The tensors of a rank's heads.
template <class Number>
struct HeadsView {
    HeadRows<Number> queries, keys, values, context;
};

template <class Number, class Heads>
HeadsView<Number> view(Heads& heads, std::size_t n)
{
    const AttentionShape& shape = heads.shape;
    const HeadShare& share = heads.share;
    return {fast::head_rows<Number>(heads.queries.data(), {shape.b, share.count, n, shape.d_k}),
            fast::head_rows<Number>(heads.keys.data(), {shape.b, share.groups, n, shape.d_k}),
            fast::head_rows<Number>(heads.values.data(), {shape.b, share.groups, n, shape.d_v}),
            fast::head_rows<Number>(heads.context.data(), {shape.b, share.count, n, shape.d_v})};
}

UlyssesHeads empty_heads(const HeadShare& share, const AttentionShape& shape, std::size_t n)
{
    const std::size_t queries = shape.b * share.count * n, keys = shape.b * share.groups * n;
    UlyssesHeads heads{.share = share, .shape = shape};
    heads.queries.resize(queries * shape.d_k);
    heads.keys.resize(keys * shape.d_k);
    heads.values.resize(keys * shape.d_v);
    heads.context.resize(queries * shape.d_v);
    heads.largest.resize(queries);
    heads.sum.resize(queries);
    return heads;
}

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

/// Records what came from the tokens.
void record_heads(const Trace& trace, const HeadsView<float>& mine, const UlyssesHeads& heads, const Layout& layout)
{
    const std::string share = range_of(heads.share.first, heads.share.count);
    const std::string groups = range_of(heads.share.first_group, heads.share.groups);
    fast::record(trace, "queries[b, h, n, d_k]", from_tokens(layout, "queries", share), mine.queries);
    fast::record(trace, "keys[b, g, m, d_k]", from_tokens(layout, "keys", groups), mine.keys);
    fast::record(trace, "values[b, g, m, d_v]", from_tokens(layout, "values", groups), mine.values);
}

void expect_messages(std::string_view function, const Layout& layout, const AttentionShape& shape)
{
    const std::size_t per_token = shape.b * (shape.h * (shape.d_k + shape.d_v) + shape.g * (shape.d_k + shape.d_v));
    message_size(function, layout.tokens() * per_token); // no rank has more to send or get
}

/// Checks what ranks don't have to agree on.
void expect_fit(const AttentionShape& shape, std::size_t rows, const Layout& layout, const fast::Scoring& scoring,
                const HeadRows<float>& context)
{
    expect_shapes({{"context", context.shape, {shape.b, shape.h, rows, shape.d_v}}});
    if (!scoring.alibi_slopes.empty() && scoring.alibi_slopes.size() != shape.h)
        throw ShapeError(std::to_string(scoring.alibi_slopes.size()) + " slopes for " + std::to_string(shape.h) +
                         " heads");
    expect_messages(ulysses, layout, shape);
}

/// From this rank's tokens of all heads to all tokens of its heads.
/// @return the bytes sent
std::size_t to_heads(const Exchange& exchange, const Const& queries, const Const& keys, const Const& values,
                     UlyssesHeads& heads, std::size_t n, const Trace& trace)
{
    fast::record_input(trace, "queries[b, h, n, d_k]", queries);
    fast::record_input(trace, "keys[b, g, n, d_k]", keys);
    fast::record_input(trace, "values[b, g, n, d_v]", values);
    const auto mine = view<float>(heads, n);
    return exchange.to_heads({{queries, mine.queries}, {keys, mine.keys, true}, {values, mine.values, true}});
}

/// Attends with this rank's heads.
void attend(UlyssesHeads& heads, const Layout& layout, const fast::Scoring& scoring, const Trace& of_rank)
{
    if (heads.share.count == 0 || layout.tokens() == 0)
        return;
    const auto mine = view<float>(heads, layout.tokens());
    const Trace trace = of_rank.scope("heads");
    if (trace.has_listener())
        record_heads(trace, mine, heads, layout);
    fast::attention(mine.queries, mine.keys, mine.values, of_share(scoring, heads.share), mine.context,
                    {heads.largest, heads.sum}, trace);
}

/// From all tokens of this rank's heads to its tokens of all heads.
/// @return the bytes sent
std::size_t to_tokens(const Exchange& exchange, UlyssesHeads& heads, const Layout& layout, std::size_t rank,
                      const HeadRows<float>& context, const Trace& trace)
{
    const std::size_t sent = exchange.to_tokens({{view<float>(heads, layout.tokens()).context, context}});
    fast::record(
        trace, "context[b, h, n, d_v]", [&] { return from_heads(layout.of_rank[rank], heads.shape, layout.ranks()); },
        context);
    return sent;
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

UlyssesHeads ulysses_attention(const Const& queries, const Const& keys, const Const& values, const Layout& layout,
                               const fast::Scoring& scoring, const HeadRows<float>& context, MPI_Comm comm,
                               Traffic* traffic, const Trace& caller)
{
    const AttentionShape shape = attention_shape(queries, keys, values);
    agree_on_attention(comm, ulysses, layout, queries, keys, values, scoring,
                       [&] { expect_fit(shape, queries.rows(), layout, scoring, context); });
    UlyssesHeads heads;
    abort_on_error(comm, ulysses, [&] {
        const Exchange exchange(comm, layout, shape);
        const Trace named = caller.observing().module(ulysses, [&] { return describe(scoring, layout); });
        const std::size_t rank = rank_in(comm);
        const Trace of_rank = named.scope("rank", rank);
        const Trace of_tokens = layout.tokens(rank) == 0 ? Trace() : of_rank;
        heads = empty_heads(exchange.share(), shape, layout.tokens());

        const std::size_t there = to_heads(exchange, queries, keys, values, heads, layout.tokens(), of_tokens);
        attend(heads, layout, scoring, of_rank);
        const std::size_t back = to_tokens(exchange, heads, layout, rank, context, of_tokens);
        if (traffic != nullptr)
            *traffic = {{there, back}};
    });
    return heads;
}

void ulysses_attention_backward(const UlyssesHeads& heads, const Layout& layout, const fast::Scoring& scoring,
                                const Const& grad_context, const HeadRows<float>& grad_queries,
                                const HeadRows<float>& grad_keys, const HeadRows<float>& grad_values, MPI_Comm comm,
                                Traffic* traffic)
{
    constexpr std::string_view function = "mpi::ulysses_attention_backward";
    const AttentionShape& shape = heads.shape;
    agree_on_attention(comm, function, layout, grad_queries, grad_keys, grad_values, scoring, [&] {
        expect_shapes(
            {{"grad_context", grad_context.shape, {shape.b, shape.h, grad_queries.rows(), shape.d_v}},
             {"grad_queries", grad_queries.shape, {shape.b, shape.h, grad_queries.rows(), shape.d_k}},
             {"grad_keys", grad_keys.shape, {shape.b, shape.g, grad_keys.rows(), shape.d_k}},
             {"heads.sum", {heads.sum.size(), 1, 1, 1}, {shape.b * heads.share.count * layout.tokens(), 1, 1, 1}}});
        expect_messages(function, layout, shape);
    });
    abort_on_error(comm, function, [&] {
        const std::size_t n = layout.tokens();
        const Exchange exchange(comm, layout, shape);
        UlyssesHeads gradients = empty_heads(heads.share, shape, n);
        const auto grad = view<float>(gradients, n);
        const auto mine = view<const float>(heads, n);
        const std::size_t there = exchange.to_heads({{grad_context, grad.context}});
        if (heads.share.count != 0 && n != 0)
            fast::attention_backward(mine.queries, mine.keys, mine.values, of_share(scoring, heads.share), mine.context,
                                     {heads.largest, heads.sum}, grad.context, grad.queries, grad.keys, grad.values);
        const std::size_t back = exchange.to_tokens(
            {{grad.queries, grad_queries}, {grad.keys, grad_keys, true}, {grad.values, grad_values, true}});
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

/// Sums f(share) over other ranks.
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

Traffic predicted_ulysses_backward_traffic(const Layout& layout, const AttentionShape& shape, std::size_t rank)
{
    const std::size_t n = layout.tokens(rank), bytes = sizeof(float) * shape.b;
    const HeadShare mine = head_share(shape, layout.ranks(), rank);
    return {{bytes * n * shape.d_v * (shape.h - mine.count), bytes * (layout.tokens() - n) * inputs_of(shape, mine)}};
}

std::size_t predicted_ulysses_memory(const Layout& layout, const AttentionShape& shape, std::size_t rank)
{
    const std::size_t n = layout.tokens(rank), all = layout.tokens();
    const HeadShare mine = head_share(shape, layout.ranks(), rank);
    const std::size_t kept = all * (inputs_of(shape, mine) + mine.count * (shape.d_v + 2));
    const std::size_t others =
        over_others(layout, shape, rank, [&](const HeadShare& share) { return inputs_of(shape, share); });
    const std::size_t there = n * (others + inputs_of(shape, mine)) + all * inputs_of(shape, mine);
    const std::size_t back = all * mine.count * shape.d_v + n * shape.h * shape.d_v;
    return sizeof(float) * shape.b * (kept + std::max(there, back));
}

} // namespace attn::mpi
