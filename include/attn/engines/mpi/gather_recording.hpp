#pragma once

#include "attn/core/recording.hpp"
#include "attn/engines/mpi/layout.hpp"

#include <mpi.h>

#include <string>

namespace attn::mpi {

/// Puts what all ranks recorded into one recording on rank 0, which `attn verify` recomputes and `attn diff` compares.
///
/// First come the inputs of all ranks, then the steps of rank 0, of rank 1 and so on, each after the steps of other
/// ranks that its formula names. All ranks of the communicator call it together.
/// @param mine  of this rank: the paths begin with `rank.R`
/// @return on rank 0 the recording of all ranks; empty on others
/// @throws Error on rank 0 where a formula names a step that no rank has recorded, or two ranks recorded the same path
Recording gather_recording(const Recording& mine, MPI_Comm comm);

/// The same, with one step more at the end: what the ranks have of a sequence, in the order of its tokens.
/// @param layout  which tokens each rank holds
/// @param step    of each rank that has tokens, (b, h, n, d): "context" is `rank.0.context` and so on
/// @return on rank 0 also the step `context`, concat(rank.0.context[:, :, 0:3], …, axis=2)
Recording gather_recording(const Recording& mine, MPI_Comm comm, const Layout& layout,
                           const std::string& step = "context");

} // namespace attn::mpi
