#include "attn/engines/mpi/ring_attention.hpp"

#include "attn/core/shape.hpp"
#include "attn/engines/fast/merge.hpp"
#include "communicator.hpp"
#include "traced_ring.hpp"

#include <algorithm>

namespace attn::mpi {
namespace {

constexpr std::string_view ring_function = "mpi::ring_attention";

/// Partial results in memory of their own.
class Partial {
public:
    Partial(const AttentionShape& shape, std::size_t most_rows)
        : shape_(shape), numbers_(shape.b * shape.h * most_rows * (shape.d_v + 2))
    {
    }

    /// Contiguous, for so many rows.
    fast::PartialAttention of(std::size_t rows)
    {
        const std::size_t queries = shape_.b * shape_.h * rows;
        float* const sums = numbers_.data() + queries * shape_.d_v;
        const std::array<std::size_t, 4> one_each{shape_.b, shape_.h, rows, 1};
        return {fast::head_rows(numbers_.data(), {shape_.b, shape_.h, rows, shape_.d_v}),
                fast::head_rows(sums, one_each), fast::head_rows(sums + queries, one_each)};
    }

private:
    AttentionShape shape_;
    std::vector<float> numbers_;
};

class RingAttention {
public:
    RingAttention(const Const& queries, const Layout& layout, const AttentionShape& shape, const fast::Scoring& scoring,
                  const HeadRows<float>& context, MPI_Comm comm)
        : ring_(comm, layout),
          shape_(shape),
          queries_(queries),
          scoring_(scoring),
          n_(queries.rows()),
          here_(shape, layout.most_tokens()),
          next_(shape, ring_.ranks > 1 ? layout.most_tokens() : 0),
          of_hop_(shape, ring_.ranks > 1 ? n_ : 0),
          of_pair_(shape, layout.largest_chunk(ring_.rank)),
          sums_(2 * shape.b * shape.h * n_),
          scratch_(2 * shape.b * shape.h * n_)
    {
        const std::array<std::size_t, 4> one_each{shape.b, shape.h, n_, 1};
        all_ = {context, fast::head_rows(sums_.data(), one_each),
                fast::head_rows(sums_.data() + sums_.size() / 2, one_each)};
    }

    void run(const Const& keys, const Const& values, Traffic& traffic, const Trace& trace)
    {
        here_.resize(n_);
        copy_rows(keys, here_.keys());
        copy_rows(values, here_.values());
        Transfer transfer(key_value_tag);
        for (std::size_t k = 0; k < ring_.ranks; ++k) {
            const bool is_last = k + 1 == ring_.ranks;
            if (!is_last) {
                transfer.receive(ring_, next_, ring_.layout.tokens(ring_.source(k + 1)));
                transfer.send(ring_, here_);
                traffic.sent.push_back(here_.size() * sizeof(float));
            }
            if (n_ != 0 && here_.tokens() != 0)
                hop(k, trace);
            if (is_last)
                break;
            transfer.wait_sent();
            transfer.wait_received();
            std::swap(here_, next_);
        }
        if (n_ != 0)
            fast::record(trace, "context[b, h, n, d_v]", last_, all_.context);
    }

    void copy_sums(const fast::SoftmaxSums& sums) const
    {
        const auto middle = sums_.begin() + static_cast<std::ptrdiff_t>(sums_.size() / 2);
        if (!sums.largest.empty())
            std::copy(sums_.begin(), middle, sums.largest.begin());
        if (!sums.sum.empty())
            std::copy(middle, sums_.end(), sums.sum.begin());
    }

private:
    /// Attends to the keys at hand, and merges that with the hops before.
    void hop(std::size_t k, const Trace& trace)
    {
        const bool is_first = k == 0;
        const Trace scope = is_first ? trace.scope("hop", k) : later_scope(k, trace);
        const fast::PartialAttention found = is_first ? all_ : of_hop_.of(n_);
        attend(k, found, scope);
        if (is_first)
            name_merged(scope);
        else
            fast::merge(all_, found, scratch_, scope);
        last_ = "hop." + std::to_string(k) + ".merged_context";
        before_ = k;
    }

    void attend(std::size_t k, const fast::PartialAttention& found, const Trace& trace)
    {
        const std::size_t source = ring_.source(k);
        const std::string from = "rank." + std::to_string(source) + ".";
        fast::record(trace, "keys[b, g, m, d_k]", from + "keys", here_.keys());
        fast::record(trace, "values[b, g, m, d_v]", from + "values", here_.values());
        record_mask(source, trace);
        fast::clear(found);
        for (const ChunkPair& pair : pairs_of(ring_.layout, ring_.rank, source, scoring_))
            attend_pair(pair, found);
        if (trace.has_listener())
            record_found(source, found, trace);
    }

    /// The queries of one chunk and the keys of one chunk.
    void attend_pair(const ChunkPair& pair, const fast::PartialAttention& found)
    {
        const std::size_t rows = pair.queries.count, all = shape_.b * shape_.h * rows;
        const fast::PartialAttention of_pair = of_pair_.of(rows);
        fast::attention(fast::rows_of(queries_, pair.query_row, rows),
                        fast::rows_of(Const(here_.keys()), pair.key_row, pair.keys.count),
                        fast::rows_of(Const(here_.values()), pair.key_row, pair.keys.count),
                        scoring_of(pair, scoring_, lengths_), of_pair.context,
                        {{of_pair.largest.numbers, all}, {of_pair.sum.numbers, all}});
        fast::merge(fast::rows_of(found, pair.query_row, rows), of_pair, scratch_);
    }

    /// Which queries can attend to which keys, as the pairs say.
    void record_mask(std::size_t source, const Trace& trace) const
    {
        if (!trace.has_listener())
            return;
        if (const std::string formula = mask_formula(ring_, source, scoring_); !formula.empty())
            static_cast<void>(trace("mask[b, h, n, m]", formula, mask_of_hop(ring_, source, shape_, scoring_)));
    }

    void record_found(std::size_t source, const fast::PartialAttention& found, const Trace& trace) const
    {
        const HopFormulas formulas = formulas_of_hop(ring_, source, shape_, scoring_);
        fast::record_sums(trace, "largest[b, h, n]", formulas.largest(), found.largest);
        fast::record_sums(trace, "sum[b, h, n]", formulas.sum(), found.sum);
        fast::record(trace, "context[b, h, n, d_v]", formulas.context(), found.context);
    }

    Trace later_scope(std::size_t k, const Trace& trace) const
    {
        const std::string before = "hop." + std::to_string(before_) + ".merged_";
        return trace.scope("hop", k,
                           {{"largest_before", before + "largest"},
                            {"sum_before", before + "sum"},
                            {"context_before", before + "context"}});
    }

    static void name_merged(const Trace& scope)
    {
        scope.alias("merged_largest", "largest");
        scope.alias("merged_sum", "sum");
        scope.alias("merged_context", "context");
    }

    Ring ring_;
    AttentionShape shape_;
    Const queries_;
    fast::Scoring scoring_;
    std::size_t n_;
    Block here_, next_;
    Partial of_hop_, of_pair_;
    std::vector<float> sums_, scratch_;
    fast::PartialAttention all_;
    std::vector<std::int64_t> lengths_;
    std::string last_;
    std::size_t before_ = 0;
};

void record_inputs(const Trace& trace, const Const& queries, const Const& keys, const Const& values,
                   const fast::Scoring& scoring, const std::vector<Chunk>& chunks, std::size_t tokens)
{
    const std::array<std::size_t, 4> per_score{queries.batch(), queries.heads(), queries.rows(), tokens};
    fast::record_input(trace, "queries[b, h, n, d_k]", queries);
    fast::record_input(trace, "keys[b, g, n, d_k]", keys);
    fast::record_input(trace, "values[b, g, n, d_v]", values);
    fast::record_input(trace, "bias[b, h, n, m]", scoring.bias, per_score);
    fast::record_input(trace, "given_mask[b, h, n, m]", scoring.mask, per_score);
    if (!trace.has_listener() || !(scoring.causal || !scoring.key_lengths.empty() || scoring.mask))
        return;
    static_cast<void>(trace.input("positions[n]", positions_of(chunks)));
    if (scoring.key_lengths.empty())
        return;
    Integers lengths(Integers::shape_type{scoring.key_lengths.size()});
    std::ranges::copy(scoring.key_lengths, lengths.begin());
    static_cast<void>(trace.input("lengths[b]", lengths));
}

} // namespace

void ring_attention(const Const& queries, const Const& keys, const Const& values, const Layout& layout,
                    const fast::Scoring& scoring, const HeadRows<float>& context, const fast::SoftmaxSums& sums,
                    MPI_Comm comm, Traffic* traffic, const Trace& caller)
{
    agree_on_attention(comm, ring_function, layout, queries, keys, values, scoring, [&] {
        const AttentionShape shape = attention_shape(queries, keys, values);
        const std::size_t all = shape.b * shape.h * queries.rows();
        expect_ring_scoring(scoring);
        expect_shapes({{"context", context.shape, {shape.b, shape.h, queries.rows(), shape.d_v}}});
        for (const std::span<float>& given : {sums.largest, sums.sum})
            if (!given.empty())
                expect_shapes({{"sums", {given.size(), 1, 1, 1}, {all, 1, 1, 1}}});
        message_size(ring_function, Block::size_of(shape, layout.most_tokens()));
    });
    abort_on_error(comm, ring_function, [&] {
        const Trace named = caller.observing().module(ring_function, [&] { return describe(scoring, layout); });
        const std::size_t rank = rank_in(comm);
        const Trace of_rank = named.scope("rank", rank);
        const Trace trace = layout.tokens(rank) == 0 ? Trace() : of_rank;
        record_inputs(trace, queries, keys, values, scoring, layout.of_rank[rank], layout.tokens());
        RingAttention here(queries, layout, attention_shape(queries, keys, values), scoring, context, comm);
        Traffic counted;
        here.run(keys, values, counted, trace);
        here.copy_sums(sums);
        if (traffic != nullptr)
            *traffic = counted;
    });
}

Traffic predicted_ring_traffic(const Layout& layout, const AttentionShape& shape, std::size_t rank)
{
    Traffic traffic;
    for (std::size_t k = 0; k + 1 < layout.ranks(); ++k) {
        const std::size_t source = (rank + layout.ranks() - k) % layout.ranks();
        traffic.sent.push_back(sizeof(float) * Block::size_of(shape, layout.tokens(source)));
    }
    return traffic;
}

std::size_t predicted_ring_memory(const Layout& layout, const AttentionShape& shape, std::size_t rank)
{
    const std::size_t n = layout.tokens(rank), blocks = layout.ranks() > 1 ? 2 : 1;
    const std::size_t travelling = blocks * Block::size_of(shape, layout.most_tokens());
    const std::size_t of_hop = layout.ranks() > 1 ? shape.b * shape.h * n * (shape.d_v + 2) : 0;
    const std::size_t of_pair = shape.b * shape.h * layout.largest_chunk(rank) * (shape.d_v + 2);
    return sizeof(float) * (travelling + of_hop + of_pair + 4 * shape.b * shape.h * n);
}

} // namespace attn::mpi
