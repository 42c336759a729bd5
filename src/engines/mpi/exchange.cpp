#include "exchange.hpp"

#include "communicator.hpp"

#include <algorithm>

namespace attn::mpi {
namespace {

/// Calls f(row) for each row of some heads of each sequence.
template <class Number, class Part, class F>
void for_rows_of(const HeadRows<Number>& tensor, const Part& part, const F& f)
{
    for (std::size_t b = 0; b < tensor.batch(); ++b)
        for (std::size_t head = 0; head < part.heads; ++head)
            for (const Chunk& chunk : part.rows)
                for (std::size_t i = 0; i < chunk.count; ++i)
                    f(tensor.row(b, part.first_head + head, chunk.first + i));
}

template <class Part>
std::size_t size_of(const Moved& moved, const Part& part)
{
    std::size_t rows = 0;
    for (const Chunk& chunk : part.rows)
        rows += chunk.count;
    return moved.from.batch() * part.heads * rows * moved.from.features();
}

std::vector<int> sums_before(const std::vector<int>& counts)
{
    std::vector<int> sums(counts.size(), 0);
    for (std::size_t i = 1; i < counts.size(); ++i)
        sums[i] = sums[i - 1] + counts[i - 1];
    return sums;
}

} // namespace

Exchange::Exchange(MPI_Comm comm, const Layout& layout, const AttentionShape& shape)
    : comm_(comm), layout_(layout), rank_(rank_in(comm))
{
    for (std::size_t rank = 0; rank < layout.ranks(); ++rank)
        shares_.push_back(head_share(shape, layout.ranks(), rank));
}

Exchange::Part Exchange::heads_part(std::size_t rank, bool is_of_groups) const
{
    const HeadShare& share = shares_[rank];
    const std::vector<Chunk> rows{{0, layout_.tokens(rank_)}};
    return is_of_groups ? Part{share.first_group, share.groups, rows} : Part{share.first, share.count, rows};
}

Exchange::Part Exchange::tokens_part(std::size_t rank, bool is_of_groups) const
{
    return {0, is_of_groups ? share().groups : share().count, layout_.of_rank[rank]};
}

template <class OfSent, class OfReceived>
std::size_t Exchange::exchange(const std::vector<Moved>& all, const OfSent& of_sent,
                               const OfReceived& of_received) const
{
    // Count what goes to each rank and comes from it.
    std::vector<int> sent_counts, received_counts;
    for (std::size_t rank = 0; rank < layout_.ranks(); ++rank) {
        std::size_t sent = 0, received = 0;
        for (const Moved& moved : all) {
            sent += size_of(moved, of_sent(rank, moved.is_of_groups));
            received += size_of(moved, of_received(rank, moved.is_of_groups));
        }
        sent_counts.push_back(static_cast<int>(sent));
        received_counts.push_back(static_cast<int>(received));
    }
    const std::vector<int> sent_places = sums_before(sent_counts), received_places = sums_before(received_counts);
    std::vector<float> sent(static_cast<std::size_t>(sent_places.back() + sent_counts.back()));
    std::vector<float> received(static_cast<std::size_t>(received_places.back() + received_counts.back()));

    // Lay the parts for each rank side by side, and exchange them.
    float* to = sent.data();
    for (std::size_t rank = 0; rank < layout_.ranks(); ++rank)
        for (const Moved& moved : all)
            for_rows_of(moved.from, of_sent(rank, moved.is_of_groups),
                        [&](const float* row) { to = std::copy_n(row, moved.from.features(), to); });
    MPI_Alltoallv(sent.data(), sent_counts.data(), sent_places.data(), MPI_FLOAT, received.data(),
                  received_counts.data(), received_places.data(), MPI_FLOAT, comm_);

    // What comes from each rank goes where it belongs.
    const float* from = received.data();
    for (std::size_t rank = 0; rank < layout_.ranks(); ++rank)
        for (const Moved& moved : all)
            for_rows_of(moved.to, of_received(rank, moved.is_of_groups), [&](float* row) {
                std::copy_n(from, moved.to.features(), row);
                from += moved.to.features();
            });
    return (sent.size() - static_cast<std::size_t>(sent_counts[rank_])) * sizeof(float);
}

std::size_t Exchange::to_heads(const std::vector<Moved>& all) const
{
    return exchange(
        all, [&](std::size_t rank, bool is_of_groups) { return heads_part(rank, is_of_groups); },
        [&](std::size_t rank, bool is_of_groups) { return tokens_part(rank, is_of_groups); });
}

std::size_t Exchange::to_tokens(const std::vector<Moved>& all) const
{
    return exchange(
        all, [&](std::size_t rank, bool is_of_groups) { return tokens_part(rank, is_of_groups); },
        [&](std::size_t rank, bool is_of_groups) { return heads_part(rank, is_of_groups); });
}

} // namespace attn::mpi
