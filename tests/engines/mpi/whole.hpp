#pragma once

#include "attn/engines/fast/attention.hpp"
#include "attn/engines/mpi/layout.hpp"
#include "attn/engines/mpi/traffic.hpp"
#include "attn/formula/evaluate.hpp"

#include <mpi.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace attn::test {

std::size_t this_rank();
std::size_t all_ranks();

/// What a drawn attention has besides queries, keys and values.
struct Drawing {
    mpi::AttentionShape shape = {1, 2, 2, 5, 3};
    bool is_causal = false, has_mask = false, has_bias = false;
    std::vector<std::int64_t> lengths = {};
    std::optional<float> scale = {}, softcap = {};
};

/// Attention to a whole sequence and its gradients; every rank draws the same numbers.
class Whole {
public:
    Whole(std::size_t n, const Drawing& drawing, std::uint64_t seed = 1);

    /// The scoring of all queries, or of a rank's.
    fast::Scoring scoring() const { return scoring_; }

    /// What plain loops in double make of one head, and how far float32 can be off.
    formula::Evaluated context(std::size_t b, std::size_t head) const;
    formula::Evaluated grad_queries(std::size_t b, std::size_t head) const;
    formula::Evaluated grad_keys(std::size_t b, std::size_t group) const;
    formula::Evaluated grad_values(std::size_t b, std::size_t group) const;

    std::size_t n;
    mpi::AttentionShape shape;
    std::vector<float> queries, keys, values, grad_context;

private:
    bool is_allowed(std::size_t b, std::size_t i, std::size_t j) const;
    formula::Evaluated evaluated(const std::string& formula, std::size_t b, std::size_t head) const;
    formula::Evaluated summed(const std::string& formula, std::size_t b, std::size_t group) const;
    std::string weights() const;
    std::string grad_scores() const;

    std::vector<std::int64_t> lengths_;
    std::vector<float> bias_;
    std::unique_ptr<bool[]> mask_;
    fast::Scoring scoring_;
};

/// The rows of one rank, of a contiguous (b, heads, n, d).
std::vector<float> rows_of_rank(const std::vector<float>& all, const mpi::Layout& layout, std::size_t rank,
                                std::size_t blocks, std::size_t features);

/// One rank's part of a whole, and room for results.
struct Shard {
    Shard(const Whole& whole, const mpi::Layout& layout);

    fast::HeadRows<const float> q() const { return fast::head_rows<const float>(queries.data(), of_queries); }
    fast::HeadRows<const float> k() const { return fast::head_rows<const float>(keys.data(), of_keys); }
    fast::HeadRows<const float> v() const { return fast::head_rows<const float>(values.data(), of_values); }
    fast::HeadRows<float> o() { return fast::head_rows(context.data(), of_context); }
    fast::SoftmaxSums sums() { return {largest, sum}; }

    mpi::Layout layout;
    std::array<std::size_t, 4> of_queries, of_keys, of_values, of_context;
    std::vector<float> queries, keys, values, grad_context, context, largest, sum;
    fast::Scoring scoring; ///< of these queries

private:
    std::unique_ptr<bool[]> mask_;
    std::vector<float> bias_;
};

/// How far results of all ranks are off.
struct Verdict {
    double worst = 0;            ///< the largest error, as a multiple of what float32 can be off by
    double largest_expected = 0; ///< of all numbers
    double largest_found = 0;
};

/// The verdict on (b, heads, n of this rank, d), over all ranks.
/// @param expected  of one sequence and head: (n, d)
template <class Expected>
Verdict judged(const std::vector<float>& found, const mpi::Layout& layout, std::size_t b, std::size_t heads,
               std::size_t features, const Expected& expected);

/// Each drawing with which layouts are tried.
std::vector<Drawing> drawings(std::size_t n);
/// Contiguous, zigzag, uneven, one token per rank, none on some.
std::vector<mpi::Layout> layouts();
std::string to_text(const mpi::Layout& layout);

// ------------------------------------------------------------------------------------------- implementation

/// The largest over all ranks, of each field; infinite where one is not finite.
Verdict over_all_ranks(Verdict mine);
/// Takes one number into account.
void judge(Verdict& verdict, double found, double expected, double error);

template <class Expected>
Verdict judged(const std::vector<float>& found, const mpi::Layout& layout, std::size_t b, std::size_t heads,
               std::size_t features, const Expected& expected)
{
    Verdict verdict;
    std::size_t at = 0;
    for (std::size_t sequence = 0; sequence < b; ++sequence)
        for (std::size_t head = 0; head < heads; ++head) {
            const formula::Evaluated right = expected(sequence, head);
            for (const mpi::Chunk& chunk : layout.of_rank[this_rank()])
                for (std::size_t i = chunk.first * features; i < (chunk.first + chunk.count) * features; ++i)
                    judge(verdict, found[at++], right.value.values[i], right.error[i]);
        }
    return over_all_ranks(verdict);
}

} // namespace attn::test
