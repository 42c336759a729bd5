#pragma once

#include "attn/ops/band.hpp"
#include "attn/tensor.hpp"
#include "attn/trace.hpp"

#include <cstddef>
#include <optional>
#include <vector>

namespace attn {

/// On which side of a query its keys may stand.
enum class Side {
    both,  ///< earlier and later ones
    causal ///< not later than the query
};

/// Which keys j a query i may attend to, by their distance j - i. Where radius and stride are given, the union of both
/// under one softmax; one of them has to be.
struct Neighbourhood {
    std::optional<std::size_t> radius = {}; ///< local: at most so far away
    std::optional<std::size_t> stride = {}; ///< strided, or atrous: a multiple of it away, however far
    Side side = Side::both;
};

/// The distances of a neighbourhood that occur among n tokens, from the earliest key to the latest, each once.
/// @return (width): at most 2 radius + 1, or 2 (n - 1) / stride + 1
/// @throws Error where neither radius nor stride is given, or stride is 0
std::vector<std::ptrdiff_t> distances_within(const Neighbourhood& neighbourhood, std::size_t n);

/// What restricted_attention() may be told.
struct RestrictedOptions {
    Neighbourhood neighbourhood;
    std::optional<double> scale = {}; ///< what scores are multiplied by; 1/sqrt(d_k) unless given
};

/// What restricted attention gives.
struct RestrictedAttention {
    Matrix context; ///< (n, d_v)
    Matrix weights; ///< (n, width): what the query takes of each of its keys; a row sums to one
    Band band;      ///< column c of the weights is key i + distances[c] where the mask is true; elsewhere there is none
};

/// Restricted attention: each query attends to the keys around it, or to every so many-th, and to no other.
///
/// The same as scaled_dot_product_attention() under a mask, but for what it costs: n width pairs are compared instead of
/// n n, and no matrix (n, n) exists. Without a trace the band's scores become its weights in one storage.
///
/// @param queries  (n, d_k)
/// @param keys     (n, d_k)
/// @param values   (n, d_v)
/// @param options  who is a neighbour; scale
/// @param trace    | step       | shape      | formula                                            |
///                 |------------|------------|----------------------------------------------------|
///                 | queries    | (n, d_k)   |                                                    |
///                 | keys       | (n, d_k)   |                                                    |
///                 | values     | (n, d_v)   |                                                    |
///                 | distances  | (width,)   | arange(3) - 1                                      |
///                 | places     | (n, width) | arange(N)[:, None] + distances                     |
///                 | mask       | (n, width) | (places >= 0) & (places < N)                       |
///                 | neighbours | (n, width) | where(mask, places, 0)                             |
///                 | scores     | (n, width) | where(mask, sum(queries[:, None, :] * keys[neighbours], axis=2), 0) |
///                 | scaled     | (n, width) | scores / sqrt(keys.shape[-1])                      |
///                 | masked     | (n, width) | where(mask, scaled, -inf)                          |
///                 | weights    | (n, width) | softmax(masked)                                    |
///                 | context    | (n, d_v)   | sum(weights[:, :, None] * values[neighbours], axis=1) |
///
///                 with numbers in place of N; beyond the ends key 0 stands in for a neighbour that there is none of,
///                 and the mask keeps it out. `distances` with a stride s is `s * (arange(5) - 2)`; of the union, what
///                 is further away than the radius stands before and behind: `concat(4 * (arange(1) - 2), arange(5) -
///                 2, 4 * (arange(1) + 1), axis=0)`. With a scale of the caller's, `scaled` is `scores * SCALE`.
///                 Places and neighbours are there for whoever listens, and can't be answered: distances and mask can.
/// @throws ShapeError where queries and keys disagree in d_k, or any two in n
/// @throws Error      where neither radius nor stride is given, stride is 0, or a listener answers what it can't
/// @see Vaswani et al. 2017, section 4 ("restricted to considering only a neighborhood of size r"); Child et al. 2019
///      for strides; seed document 001
RestrictedAttention restricted_attention(const Matrix& queries, const Matrix& keys, const Matrix& values,
                                         const RestrictedOptions& options, const Trace& trace = {});

} // namespace attn
