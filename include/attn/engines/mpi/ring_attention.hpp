#pragma once

#include "attn/core/trace.hpp"
#include "attn/engines/fast/attention.hpp"
#include "attn/engines/mpi/layout.hpp"
#include "attn/engines/mpi/traffic.hpp"

#include <mpi.h>

namespace attn::mpi {

/// Self-attention to a sequence whose tokens are divided among ranks, in float32: ring attention.
///
/// Every rank keeps its queries. Keys and values travel around the ring, one rank further per hop: at hop k, rank r has
/// those of rank r - k (modulo P), and computes its queries' attention to them while they are sent on to rank r + 1 and
/// the next ones arrive. A hop gives a partial context, the largest score m and the sum l of each query. These are
/// merged with those of the hops before by m and l, see fast::merge(), so that after P hops the context is exactly that
/// of all keys. Beside its own it holds those of two ranks.
///
/// All ranks of the communicator call it together. The result has the same bits in every run with as many ranks.
/// @param queries  (b, h, n of this rank, d_k): the rows of its chunks, one chunk after the other
/// @param keys     (b, g, n of this rank, d_k); each of the g key/value heads serves h / g consecutive query heads
/// @param values   (b, g, n of this rank, d_v)
/// @param layout   which tokens each rank holds; a rank can hold none
/// @param scoring  scale, softcap, causal or not; key_lengths of the whole sequences; bias and mask with a row per
///                 query of this rank, and a column per key of the whole sequence, in the order of tokens
/// @param context  (b, h, n of this rank, d_v), is written; 0 for a query that can attend to nothing
/// @param sums     are written where they are given: m and l over all keys, (b, h, n of this rank)
/// @param comm     the ranks, as many as the layout has; tag 1701 is used
/// @param traffic  is written where it is given: per hop, the bytes that this rank sends
/// @param trace    of this rank; all steps are in the scope `rank.R` of its number:
///
///                 | step                | shape          | formula                                                    |
///                 |---------------------|----------------|------------------------------------------------------------|
///                 | queries             | (b, h, n, d_k) |                                                            |
///                 | keys                | (b, g, n, d_k) |                                                            |
///                 | values              | (b, g, n, d_v) |                                                            |
///                 | positions           | (n,)           |                                                            |
///                 | hop.0.keys          | (b, g, m, d_k) | rank.0.keys                                                |
///                 | hop.0.values        | (b, g, m, d_v) | rank.0.values                                              |
///                 | hop.0.mask          | (1, 1, n, m)   | (rank.0.positions[None, None, None, :] <= positions[:, None]) |
///                 | hop.0.largest       | (b, h, n)      | max(where(mask, queries @ keys.T / sqrt(keys.shape[-1]), -inf), axis=-1) |
///                 | hop.0.sum           | (b, h, n)      | sum(where(largest[..., None] == -inf, 0, exp(where(mask, queries @ keys.T / sqrt(keys.shape[-1]), -inf) - largest[..., None])), axis=-1) |
///                 | hop.0.context       | (b, h, n, d_v) | softmax(where(mask, queries @ keys.T / sqrt(keys.shape[-1]), -inf)) @ values |
///                 | hop.1.merged_largest | (b, h, n)     | where(largest_before > largest, largest_before, largest)   |
///                 | context             | (b, h, n, d_v) | hop.1.merged_context                                       |
///
///                 and so on: each hop has the steps of fast::merge() after its own, but for the first one, whose
///                 merged_… are other names of its own. Formulas name the steps of the rank that a block comes from,
///                 such as rank.3.keys; gather_recording() puts all ranks' steps into one trace. `positions` and `mask`
///                 are there where a mask, a causal mask or lengths are given, with `lengths`, `given_mask` and `bias`
///                 as inputs; with fewer key/value heads than heads, keys and values are `repeat(keys, 2, axis=1)`. A
///                 rank without tokens has no steps, and neither has a hop of its keys.
/// @throws ShapeError where shapes don't fit, or differ between ranks: on every rank, before anything is sent
/// @throws Error      where the layout is not for as many ranks or lacks a token, or the scoring has what a ring does
///                    not do: ALiBi, windows, a past, causal by length; on every rank
/// @see Liu, Zaharia and Abbeel 2023, Ring Attention with Blockwise Transformers, algorithm 1
void ring_attention(const fast::HeadRows<const float>& queries, const fast::HeadRows<const float>& keys,
                    const fast::HeadRows<const float>& values, const Layout& layout, const fast::Scoring& scoring,
                    const fast::HeadRows<float>& context, const fast::SoftmaxSums& sums, MPI_Comm comm,
                    Traffic* traffic = nullptr, const Trace& trace = {});

/// What ring_attention() sends: at each hop k < P - 1, the keys and values of rank r - k, 4 b g n (d_k + d_v) bytes.
Traffic predicted_ring_traffic(const Layout& layout, const AttentionShape& shape, std::size_t rank);

/// The most bytes that ring_attention() itself allocates for numbers on a rank, without a listener.
///
/// With n tokens on this rank, at most n_max on any, and at most c in one of its chunks, these are in numbers of 4
/// bytes: the keys and values at hand and, with several ranks, the next ones, b g n_max (d_k + d_v) each; the hop's
/// partial results, b h n (d_v + 2), with several ranks; those of one pair of chunks, b h c (d_v + 2); all keys' m and
/// l, 2 b h n; and the factors of a merge, 2 b h n. What the kernel packs for one pair of chunks comes on top.
std::size_t predicted_ring_memory(const Layout& layout, const AttentionShape& shape, std::size_t rank);

} // namespace attn::mpi
