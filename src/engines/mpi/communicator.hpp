#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace attn::mpi {

struct Layout;

std::size_t rank_in(MPI_Comm comm);
std::size_t ranks_in(MPI_Comm comm);

/// What all ranks must have in common, such as {"d_k", 64}.
struct Fact {
    std::string name;
    double value = 0;
};

/// Checks arguments on every rank before anything is sent: where one rank finds a mistake, or two differ in a fact,
/// every rank throws the same.
/// @param facts  of this rank; all ranks have the same names
/// @param check  of this rank's arguments by themselves; throws an Error
/// @throws ShapeError where ranks differ or one rank's check failed
void agree(MPI_Comm comm, std::string_view function, const std::vector<Fact>& facts,
           const std::function<void()>& check);

/// A number that differs where the layout does.
double checksum(const Layout& layout);

/// How many numbers a message has, as MPI counts.
/// @throws Error where it can't
int message_size(std::string_view function, std::size_t numbers);

/// Does what the other ranks wait for. An exception here would let them wait forever, so it ends all ranks.
template <class Work>
void abort_on_error(MPI_Comm comm, std::string_view function, const Work& work)
{
    try {
        work();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%.*s: rank %zu can't go on, so all ranks end: %s\n", static_cast<int>(function.size()),
                     function.data(), rank_in(comm), error.what());
        MPI_Abort(comm, 2);
    }
}

} // namespace attn::mpi
