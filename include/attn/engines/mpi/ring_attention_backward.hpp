#pragma once

#include "attn/engines/fast/attention_backward.hpp"
#include "attn/engines/mpi/layout.hpp"
#include "attn/engines/mpi/traffic.hpp"

#include <mpi.h>

namespace attn::mpi {

/// Gradients of ring_attention(), in float32.
///
/// Keys and values travel around the ring as in ring_attention(), and their gradients travel one hop after them. At
/// each hop a rank computes what its queries contribute to the gradients of the block at hand, adds it to what the
/// ranks before have contributed, and sends it on; after P hops each block's gradients are complete and back at their
/// rank. The contributions are computed with the context, m and l of all keys, see fast::attention_backward().
///
/// All ranks of the communicator call it together. The result has the same bits in every run with as many ranks.
/// @param queries       (b, h, n of this rank, d_k); this and the next ones as ring_attention() had them
/// @param keys          (b, g, n of this rank, d_k)
/// @param values        (b, g, n of this rank, d_v)
/// @param layout        which tokens each rank holds
/// @param scoring       of this rank's queries
/// @param context       (b, h, n of this rank, d_v): what ring_attention() gave
/// @param sums          its m and l, (b, h, n of this rank)
/// @param grad_context  (b, h, n of this rank, d_v): the gradient of the context
/// @param grad_queries  (b, h, n of this rank, d_k), is written
/// @param grad_keys     (b, g, n of this rank, d_k), is written
/// @param grad_values   (b, g, n of this rank, d_v), is written
/// @param comm          the ranks; tags 1701 and 1702 are used
/// @param traffic       is written where it is given: per hop, the bytes that this rank sends
/// @throws ShapeError, Error as ring_attention(), on every rank
/// @see Liu, Zaharia and Abbeel 2023, Ring Attention with Blockwise Transformers, appendix A
void ring_attention_backward(const fast::HeadRows<const float>& queries, const fast::HeadRows<const float>& keys,
                             const fast::HeadRows<const float>& values, const Layout& layout,
                             const fast::Scoring& scoring, const fast::HeadRows<const float>& context,
                             const fast::SoftmaxSumsView& sums, const fast::HeadRows<const float>& grad_context,
                             const fast::HeadRows<float>& grad_queries, const fast::HeadRows<float>& grad_keys,
                             const fast::HeadRows<float>& grad_values, MPI_Comm comm, Traffic* traffic = nullptr);

/// What ring_attention_backward() sends, with several ranks: at each hop the gradients of the keys and values of rank
/// r - k, 4 b g n (d_k + d_v) bytes, and at each but the last one those keys and values themselves, as many bytes.
Traffic predicted_ring_backward_traffic(const Layout& layout, const AttentionShape& shape, std::size_t rank);

/// The most bytes that ring_attention_backward() itself allocates for numbers on a rank.
///
/// With n tokens on this rank, at most n_max on any, at most c in one of its chunks and c_max in any chunk, these are
/// in numbers of 4 bytes: five blocks of keys and values or their gradients (at hand, next; found, sent, arriving),
/// with one rank two, b g n_max (d_k + d_v) each; the gradients of one pair of chunks, b h c d_k + b g c_max (d_k +
/// d_v); and m and l by chunks, 2 b h n. What the kernel needs for one pair of chunks comes on top.
std::size_t predicted_ring_backward_memory(const Layout& layout, const AttentionShape& shape, std::size_t rank);

} // namespace attn::mpi
