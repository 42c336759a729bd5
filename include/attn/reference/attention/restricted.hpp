#pragma once

#include "attn/core/tensor.hpp"
#include "attn/core/trace.hpp"
#include "attn/reference/ops/band.hpp"

#include <cstddef>
#include <optional>

namespace attn {

/// On which side of a query its keys are.
enum class Side {
    both,  ///< before and after the query
    causal ///< not after the query
};

/// Which keys j a query i can attend to, by their distance j - i. Where radius and stride are both given, it is the
/// union of both, under one softmax; at least one of them has to be given.
struct Neighbourhood {
    std::optional<std::size_t> radius = {}; ///< local: at most this far away
    std::optional<std::size_t> stride = {}; ///< strided (atrous): any multiple of this away
    Side side = Side::both;
};

/// The distances of a neighbourhood that occur among n tokens, in increasing order.
/// @return (width): at most 2 radius + 1, or 2 (n - 1) / stride + 1
/// @throws Error where neither radius nor stride is given, or stride is 0
Integers distances_within(const Neighbourhood& neighbourhood, std::size_t n);

/// Options of restricted_attention().
struct RestrictedOptions {
    Neighbourhood neighbourhood;
    std::optional<double> scale = {}; ///< factor of the scores; 1/sqrt(d_k) by default
};

/// Results of restricted_attention().
template <Sequence T>
struct RestrictedAttentionOf {
    T context; ///< ((b,) n, d_v)
    T weights; ///< ((b,) n, width): column c belongs to key i + band.distances[c]; zero where band.mask is false
    Band band; ///< which keys are a query's neighbours, the same in every sequence
};
using RestrictedAttention = RestrictedAttentionOf<Matrix>;

/// Restricted attention: each query attends to the keys within a radius, to those at multiples of a stride, or to both.
///
/// The result is that of scaled_dot_product_attention() under a mask. The cost is n width pairs instead of n n, and no
/// (n, n) matrix exists. Without a listener the scores become the weights in one storage.
///
/// @param queries  ((b,) n, d_k)
/// @param keys     ((b,) n, d_k)
/// @param values   ((b,) n, d_v)
/// @param options  the neighbourhood; the scale
/// @param trace    | step       | shape      | formula                                            |
///                 |------------|------------|----------------------------------------------------|
///                 | queries    | ((b,) n, d_k) |                                                 |
///                 | keys       | ((b,) n, d_k) |                                                 |
///                 | values     | ((b,) n, d_v) |                                                 |
///                 | distances  | (width,)   | arange(3) - 1                                      |
///                 | places     | (n, width) | arange(N)[:, None] + distances                     |
///                 | mask       | (n, width) | (places >= 0) & (places < N)                       |
///                 | neighbours | (n, width) | where(mask, places, 0)                             |
///                 | scores     | ((b,) n, width) | where(mask, sum(queries[:, None, :] * keys[neighbours], axis=2), 0) |
///                 | scaled     | ((b,) n, width) | scores / sqrt(keys.shape[-1])                 |
///                 | masked     | ((b,) n, width) | where(mask, scaled, -inf)                     |
///                 | weights    | ((b,) n, width) | softmax(masked)                               |
///                 | context    | ((b,) n, d_v) | sum(where(mask[:, :, None], weights[:, :, None] * values[neighbours], 0), axis=1) |
///
///                 with numbers in place of N. A missing neighbour (beyond either end) gets the score minus infinity, so
///                 its weight is exactly 0; `neighbours` has key 0 there. With a stride s, `distances` is
///                 `s * (arange(5) - 2)`; of the union, distances beyond the radius come before and after those within
///                 it: `concat(4 * (arange(1) - 2), arange(5) - 2, 4 * (arange(1) + 1), axis=0)`. With a given scale
///                 `scaled` is `scores * SCALE`. The keys of a batch are gathered along their second axis:
///                 `sum(queries[:, :, None, :] * permute(permute(keys, 1, 0, 2)[neighbours], 2, 0, 1, 3), axis=3)`
/// @throws ShapeError where queries and keys disagree in d_k, or any two in n or b; where a listener replaces distances,
///                    places, mask or neighbours so that the mask is true at a neighbour that is no key
/// @throws Error      where neither radius nor stride is given, or stride is 0
/// @see Vaswani et al. 2017, section 4 ("restricted to considering only a neighborhood of size r"); Child et al. 2019
///      for strides; document 001 of docs/sources.md
template <Sequence T>
RestrictedAttentionOf<T> restricted_attention(const T& queries, const T& keys, const T& values,
                                              const RestrictedOptions& options, const Trace& trace = {});
ATTN_REFUSE_OTHER_TENSORS(restricted_attention);

} // namespace attn
