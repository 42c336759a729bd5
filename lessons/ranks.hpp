#pragma once

#include "attn/core/recording.hpp"

#include <mpi.h>

#include <chrono>
#include <optional>

namespace attn {

/// What each rank does with the arrays that the lesson gives to all of them.
/// @return on rank 0 what the lesson gets back
using RankWork = Recording (*)(const Recording& given, MPI_Comm comm);

/// Starts this program again as so many ranks, by mpirun, and waits for them. They run
/// with one thread each, on as many cores as there are.
/// @param longest  after which they are ended
/// @return what rank 0 returned
/// @throws Error where mpirun is missing, the ranks end with an error: which one, a signal
///               ends a rank: which rank, or they take too long: which rank is stopped or
///               has not begun
Recording run_on_ranks(std::size_t ranks, const Recording& given,
                       std::chrono::seconds longest);

/// Does the work of one rank, in a process that run_on_ranks() has started.
/// @return its exit code; nothing in a process that the user started
std::optional<int> run_as_rank(int argc, char** argv, RankWork work);

} // namespace attn
