#pragma once

#include "attn/core/trace.hpp"
#include "attn/engines/fast/attention.hpp"
#include "attn/engines/mpi/layout.hpp"
#include "attn/engines/mpi/traffic.hpp"

#include <mpi.h>

namespace attn::mpi {

/// The heads that one rank computes for the whole sequence: [first, first + count), with the key/value heads that serve
/// them. It is part of one group, or whole groups.
struct HeadShare {
    std::size_t first = 0, count = 0;
    std::size_t first_group = 0, groups = 0;
};

/// The share of a rank. With at least as many key/value heads as ranks they are divided evenly among the ranks, the
/// first ones taking one more. With fewer, the ranks are divided evenly among them, and the query heads of each among
/// its ranks. With more ranks than heads, some have none.
HeadShare head_share(const AttentionShape& shape, std::size_t ranks, std::size_t rank);

/// Self-attention to a sequence whose tokens are divided among ranks, in float32: DeepSpeed-Ulysses.
///
/// By one exchange of all with all, each rank gets the queries, keys and values of all tokens for its share of the
/// heads. It computes attention of these heads as on one machine, with fast::attention(). By a second exchange each
/// rank gets back the contexts of all heads for its tokens.
///
/// All ranks of the communicator call it together. The contexts have the same bits with any number of ranks.
/// @param queries  (b, h, n of this rank, d_k): the rows of its chunks, one chunk after the other
/// @param keys     (b, g, n of this rank, d_k); each of the g key/value heads serves h / g consecutive query heads
/// @param values   (b, g, n of this rank, d_v)
/// @param layout   which tokens each rank holds; a rank can hold none
/// @param scoring  of the whole sequence and all heads, the same on all ranks: everything that fast::attention() takes
/// @param context  (b, h, n of this rank, d_v), is written
/// @param comm     the ranks, as many as the layout has
/// @param traffic  is written where it is given: what this rank sends to others in each of the two exchanges
/// @param trace    of this rank; all steps are in the scope `rank.R` of its number:
///
///                 | step          | shape              | formula                                                    |
///                 |---------------|--------------------|------------------------------------------------------------|
///                 | queries       | (b, h, n, d_k)     |                                                            |
///                 | keys          | (b, g, n, d_k)     |                                                            |
///                 | values        | (b, g, n, d_v)     |                                                            |
///                 | heads.queries | (b, heads, m, d_k) | concat(rank.0.queries[:, 0:2, 0:3], rank.1.queries[:, 0:2, 0:3], axis=2) |
///                 | heads.keys    | (b, groups, m, d_k) | concat(rank.0.keys[:, 0:1, 0:3], rank.1.keys[:, 0:1, 0:3], axis=2) |
///                 | heads.values  | (b, groups, m, d_v) | concat(rank.0.values[:, 0:1, 0:3], rank.1.values[:, 0:1, 0:3], axis=2) |
///                 | heads.context | (b, heads, m, d_v) | as fast::attention() has it, after its other steps         |
///                 | context       | (b, h, n, d_v)     | concat(rank.0.heads.context[:, :, 0:3], rank.1.heads.context[:, :, 0:3], axis=1) |
///
///                 A rank without heads has no `heads`, one without tokens no other steps. gather_recording() puts all
///                 ranks' steps into one trace.
/// @throws ShapeError where shapes don't fit, or differ between ranks: on every rank, before anything is sent
/// @throws Error      where the layout is not for as many ranks or lacks a token; on every rank
/// @see Jacobs et al. 2023, DeepSpeed Ulysses, section 3.1
void ulysses_attention(const fast::HeadRows<const float>& queries, const fast::HeadRows<const float>& keys,
                       const fast::HeadRows<const float>& values, const Layout& layout, const fast::Scoring& scoring,
                       const fast::HeadRows<float>& context, MPI_Comm comm, Traffic* traffic = nullptr,
                       const Trace& trace = {});

/// What ulysses_attention() sends. To rank s with h_s heads of g_s groups rank r sends 4 b n_r (h_s d_k + g_s (d_k +
/// d_v)) bytes in the first exchange, and 4 b n_s h_r d_v in the second.
Traffic predicted_ulysses_traffic(const Layout& layout, const AttentionShape& shape, std::size_t rank);

/// The most bytes that ulysses_attention() itself allocates for numbers on a rank, without a listener.
///
/// In numbers of 4 bytes, with n tokens in all: its heads, b n (h_r + g_r) (d_k + d_v); and what one
/// exchange sends and gets, the part for itself included, the larger of
/// b n_r sum over s of (h_s d_k + g_s (d_k + d_v)) + b n (h_r d_k + g_r (d_k + d_v)) and b n h_r d_v + b n_r h d_v.
std::size_t predicted_ulysses_memory(const Layout& layout, const AttentionShape& shape, std::size_t rank);

} // namespace attn::mpi
