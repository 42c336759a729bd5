#include "communicator.hpp"

#include "attn/core/array.hpp"
#include "attn/core/shape.hpp"
#include "attn/engines/mpi/layout.hpp"

#include <climits>
#include <cstdint>

namespace attn::mpi {
namespace {

/// The message of the first rank that has one, on every rank; empty where none has.
std::string first_message(MPI_Comm comm, const std::string& mine)
{
    int first = mine.empty() ? INT_MAX : static_cast<int>(rank_in(comm));
    MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, comm);
    if (first == INT_MAX)
        return {};
    std::string message = mine;
    std::uint64_t length = message.size();
    MPI_Bcast(&length, 1, MPI_UINT64_T, first, comm);
    message.resize(length);
    MPI_Bcast(message.data(), static_cast<int>(length), MPI_CHAR, first, comm);
    return "rank " + std::to_string(first) + ": " + message;
}

/// What the first rank that differs from rank 0 has; empty where all have the same.
std::string difference(MPI_Comm comm, const std::vector<Fact>& facts)
{
    std::vector<double> mine, all(facts.size() * ranks_in(comm));
    for (const Fact& fact : facts)
        mine.push_back(fact.value);
    const int count = static_cast<int>(mine.size());
    MPI_Allgather(mine.data(), count, MPI_DOUBLE, all.data(), count, MPI_DOUBLE, comm);
    for (std::size_t i = facts.size(); i < all.size(); ++i) {
        const std::size_t fact = i % facts.size();
        if (all[i] != all[fact])
            return "rank " + std::to_string(i / facts.size()) + " has " + facts[fact].name + " = " +
                   exact_text(all[i]) + " and rank 0 has " + exact_text(all[fact]) + "; all ranks must agree";
    }
    return {};
}

} // namespace

std::size_t rank_in(MPI_Comm comm)
{
    int rank = 0;
    MPI_Comm_rank(comm, &rank);
    return static_cast<std::size_t>(rank);
}

std::size_t ranks_in(MPI_Comm comm)
{
    int ranks = 0;
    MPI_Comm_size(comm, &ranks);
    return static_cast<std::size_t>(ranks);
}

void agree(MPI_Comm comm, std::string_view function, const std::vector<Fact>& facts, const std::function<void()>& check)
{
    std::string mine;
    try {
        check();
    } catch (const std::exception& error) {
        mine = error.what();
    }
    std::string message = first_message(comm, mine);
    if (message.empty())
        message = difference(comm, facts);
    if (!message.empty())
        throw ShapeError(function, ": ", message);
}

double checksum(const Layout& layout)
{
    std::uint32_t sum = 2166136261U; // FNV-1a
    const auto add = [&](std::size_t number) { sum = (sum ^ static_cast<std::uint32_t>(number)) * 16777619U; };
    for (const std::vector<Chunk>& chunks : layout.of_rank) {
        add(chunks.size());
        for (const Chunk& chunk : chunks) {
            add(chunk.first);
            add(chunk.count);
        }
    }
    return sum;
}

int message_size(std::string_view function, std::size_t numbers)
{
    if (numbers > INT_MAX)
        throw Error(function, ": a message of ", numbers, " numbers is more than MPI can count, expected at most ",
                    INT_MAX);
    return static_cast<int>(numbers);
}

} // namespace attn::mpi
