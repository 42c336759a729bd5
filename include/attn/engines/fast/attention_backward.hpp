#pragma once

#include "attn/engines/fast/attention.hpp"

namespace attn::fast {

/// What attention() wrote of each query's softmax, to be read: (b, h, n) each.
struct SoftmaxSumsView {
    std::span<const float> largest; ///< m: the largest score; -inf where the query can attend to nothing
    std::span<const float> sum;     ///< l: the sum of exp(score - m)
};

/// Gradients of attention(), in float32: each tile's weights are recomputed from m and l alone.
///
/// With the gradient dO of the context O, and the weights P = exp(S - m) / l of the finished scores S:
///
///     dV = P^T dO    dP = dO V^T    D = sum(dO * O, axis=-1)    dS = P * (dP - D)
///     dQ = dS K scale    dK = dS^T Q scale
///
/// No matrix of n by m numbers is made. A tile of keys meets one tile of queries after the other, recomputes their
/// scores and weights, and adds to the gradients. Tiles in which no query can attend to any key are skipped. Memory
/// beside the arguments is O(n): D, and a few tiles per thread. It computes five products where attention() computes
/// two.
///
/// The context, m and l can be those of more keys than are given: P and D take them as they are. So the gradients of
/// keys that lie on several machines are computed block by block, each with the context, m and l of all keys. A block's
/// grad_keys and grad_values are then complete, and the blocks' grad_queries add up to those of all keys.
///
/// The gradients of a key/value head are the sums over the query heads that it serves. The gradients of a query that
/// can attend to nothing are 0, and it adds nothing to others. Slopes, biases and masks get no gradients.
///
/// Threads share the tiles of keys (OpenMP). What they add to the same queries is added in the order of the keys, so
/// that the numbers do not depend on how many threads there are.
/// @param queries       (b, h, n, d_k)
/// @param keys          (b, g, m, d_k); each of the g key/value heads serves h / g consecutive query heads
/// @param values        (b, g, m, d_v)
/// @param scoring       as attention() had it
/// @param context       (b, h, n, d_v): what attention() gave
/// @param sums          its m and l
/// @param grad_context  (b, h, n, d_v): the gradient of the context
/// @param grad_queries  (b, h, n, d_k), is written. The gradients overlap no argument and not each other.
/// @param grad_keys     (b, g, m, d_k), is written
/// @param grad_values   (b, g, m, d_v), is written
/// @param trace         | step | shape | formula |
///                      | --- | --- | --- |
///                      | queries | (b, h, n, d_k) | |
///                      | keys | (b, g, m, d_k) | |
///                      | values | (b, g, m, d_v) | |
///                      | context | (b, h, n, d_v) | |
///                      | largest | (b, h, n) | |
///                      | sum | (b, h, n) | |
///                      | grad_context | (b, h, n, d_v) | |
///                      | head.0.rows.0.D | (rows,) | sum(grad_context[0, 0, 0:60] * context[0, 0, 0:60], axis=-1) |
///                      | head.0.rows.0.tile.0.scores | (rows, columns) | queries[0, 0, 0:60] @ keys[0, 0, 0:128].T |
///                      | head.0.rows.0.tile.0.scaled | (rows, columns) | scores / sqrt(keys.shape[-1]) |
///                      | head.0.rows.0.tile.0.weights | (rows, columns) | where(sum[0, 0, 0:60][:, None] == 0, 0, exp(scaled - largest[0, 0, 0:60][:, None]) / sum[0, 0, 0:60][:, None]) |
///                      | head.0.rows.0.tile.0.partial_grad_values | (columns, d_v) | weights.T @ grad_context[0, 0, 0:60] |
///                      | head.0.rows.0.tile.0.grad_weights | (rows, columns) | grad_context[0, 0, 0:60] @ values[0, 0, 0:128].T |
///                      | head.0.rows.0.tile.0.grad_scores | (rows, columns) | weights * (grad_weights - D[:, None]) / sqrt(keys.shape[-1]) |
///                      | head.0.rows.0.tile.0.partial_grad_keys | (columns, d_k) | grad_scores.T @ queries[0, 0, 0:60] |
///                      | head.0.rows.0.tile.0.partial_grad_queries | (rows, d_k) | grad_scores @ keys[0, 0, 0:128] |
///                      | head.0.rows.1.tile.0.partial_grad_keys | (columns, d_k) | partial_grad_keys_before + grad_scores.T @ queries[0, 0, 60:90] |
///                      | grad_queries | (b, h, n, d_k) | reshape(concat(head.0.rows.0.tile.0.partial_grad_queries, head.0.rows.1.tile.0.partial_grad_queries, axis=0), 1, 1, 90, 8) |
///                      | grad_keys | (b, g, m, d_k) | reshape(concat(head.0.rows.1.tile.0.partial_grad_keys, axis=0), 1, 1, 128, 8) |
///                      | grad_values | (b, g, m, d_v) | reshape(concat(head.0.rows.1.tile.0.partial_grad_values, axis=0), 1, 1, 128, 8) |
///
///                      and so on for each tile of 128 keys and each tile `rows.R` of 60 queries that it meets. The
///                      partial sums go on from those of the tile before, which are called `partial_grad_keys_before`,
///                      `partial_grad_values_before` (of the same keys) and `partial_grad_queries_before` (of the same
///                      queries). With a mask `masked` stands in place of `scaled`. In a batch of several sequences,
///                      heads are `sequence.0.head.0`. The steps are the kernel's own numbers, in float32, and their
///                      module says so, so that they are verified as such.
/// @throws ShapeError where shapes disagree, g does not divide h, or a length is negative or greater than m
/// @throws Error      where a pointer to numbers is null, or it is causal by length and there are no lengths
/// @see Dao et al. 2022, FlashAttention, algorithm 4
void attention_backward(const HeadRows<const float>& queries, const HeadRows<const float>& keys,
                        const HeadRows<const float>& values, const Scoring& scoring,
                        const HeadRows<const float>& context, const SoftmaxSumsView& sums,
                        const HeadRows<const float>& grad_context, const HeadRows<float>& grad_queries,
                        const HeadRows<float>& grad_keys, const HeadRows<float>& grad_values, const Trace& trace = {});

} // namespace attn::fast
