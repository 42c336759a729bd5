#pragma once

#include "attn/reference/attention/mask.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

/// The same as the reference in float32, for speed.
namespace attn::fast {

/// The vectors of several heads of a batch, (b, h, n, d), in memory of somebody else's.
///
/// The d features of a vector lie side by side. The strides of the other axes are counted in numbers; a stride of 0
/// repeats what is there. So heads that lie side by side, as linear maps return them, need not be moved.
template <class Number>
struct HeadRows {
    Number* numbers = nullptr;
    std::array<std::size_t, 4> shape = {};   ///< b, h, n, d
    std::array<std::size_t, 3> strides = {}; ///< of b, h and n

    std::size_t batch() const { return shape[0]; }
    std::size_t heads() const { return shape[1]; }
    std::size_t rows() const { return shape[2]; }
    std::size_t features() const { return shape[3]; }
    Number* row(std::size_t b, std::size_t h, std::size_t i) const
    {
        return numbers + b * strides[0] + h * strides[1] + i * strides[2];
    }
    operator HeadRows<const Number>() const requires(!std::is_const_v<Number>) { return {numbers, shape, strides}; }
};

/// Contiguous (b, h, n, d).
template <class Number>
HeadRows<Number> head_rows(Number* numbers, const std::array<std::size_t, 4>& shape)
{
    return {numbers, shape, {shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3]}};
}

/// Heads side by side in each token's row: (b, n, h d).
/// @param shape  b, h, n, d
template <class Number>
HeadRows<Number> packed_head_rows(Number* numbers, const std::array<std::size_t, 4>& shape)
{
    const std::size_t token = shape[1] * shape[3];
    return {numbers, shape, {shape[2] * token, shape[3], token}};
}

/// One number per score, (b, h, n, m): of a mask or a bias. The m of a row lie side by side, the other strides can be 0.
template <class Number>
struct PerScore {
    const Number* numbers = nullptr;         ///< none: no mask, no bias
    std::array<std::size_t, 3> strides = {}; ///< of b, h and n

    explicit operator bool() const { return numbers != nullptr; }
    const Number* row(std::size_t b, std::size_t h, std::size_t i) const
    {
        return numbers + b * strides[0] + h * strides[1] + i * strides[2];
    }
};

/// What decides the scores besides queries and keys.
struct Scoring {
    std::optional<float> scale = {};   ///< what scores are multiplied by; 1/sqrt(d_k) unless given
    std::optional<float> softcap = {}; ///< limits the scaled scores: softcap tanh(x / softcap)
    std::span<const float> alibi_slopes =
        {};                            ///< (h): a score falls by the slope per key of distance; none unless given
    PerScore<float> bias = {};         ///< added to the scaled scores
    PerScore<bool> mask = {};          ///< true where a query can attend
    std::optional<Causal> causal = {}; ///< no later keys
    std::size_t past = 0;              ///< from the top left: how many keys were there before the first query
    std::span<const std::int64_t> key_lengths = {}; ///< (b): how many keys of each sequence are real; all unless given
    Window window = {};                             ///< no keys outside of it
};

/// What is known of each query's softmax, (b, h, n) each: enough to merge the contexts of two sets of keys, and to compute
/// gradients without the weights.
struct SoftmaxSums {
    std::span<float> largest; ///< m: the largest score; -inf where the query can attend to nothing
    std::span<float> sum;     ///< l: the sum of exp(score - m)
};

/// Scaled dot-product attention by tiles of queries and keys, in float32: softmax(Q K^T / sqrt(d_k)) V.
///
/// No matrix of n by m numbers is made. A tile of queries meets one tile of keys after the other and keeps, per query, the
/// largest score m, the sum l of exp(score - m), and the context so far times l; where a later tile has a larger score, l
/// and the context are multiplied by exp(old m - new m). Tiles of keys that no query of the tile can attend to are
/// skipped. Memory beside the arguments is O(m d) for the keys and values of the heads at work.
///
/// Threads share the tiles of queries (OpenMP); the numbers do not depend on how many there are.
/// @param queries  (b, h, n, d_k)
/// @param keys     (b, g, m, d_k); each of the g key/value heads serves h / g consecutive query heads
/// @param values   (b, g, m, d_v)
/// @param scoring  scale, bias, masks
/// @param context  (b, h, n, d_v), is written; 0 for a query that can attend to nothing. It overlaps no argument.
/// @param sums     are written where they are given
/// @param trace    | step                     | shape          | formula                                             |
///                 |--------------------------|----------------|-----------------------------------------------------|
///                 | queries                  | (b, h, n, d_k) |                                                     |
///                 | keys                     | (b, g, m, d_k) |                                                     |
///                 | values                   | (b, g, m, d_v) |                                                     |
///                 | head.0.queries           | (n, d_k)       | queries[0, 0]                                       |
///                 | head.0.keys              | (m, d_k)       | keys[0, 0]                                          |
///                 | head.0.values            | (m, d_v)       | values[0, 0]                                        |
///                 | head.0.rows.0.tile.0.scores | (rows, columns) | queries[0:60] @ keys[0:128].T                   |
///                 | head.0.rows.0.tile.0.scaled | (rows, columns) | scores / sqrt(keys.shape[-1])                   |
///                 | head.0.rows.0.tile.0.largest | (rows,)    | max(scaled, axis=-1)                                |
///                 | head.0.rows.0.tile.0.exponentials | (rows, columns) | where(largest[:, None] == -inf, 0, exp(scaled - largest[:, None])) |
///                 | head.0.rows.0.tile.0.sum | (rows,)        | sum(exponentials, axis=-1)                          |
///                 | head.0.rows.0.tile.0.partial | (rows, d_v) | exponentials @ values[0:128]                       |
///                 | head.0.rows.0.tile.1.correction | (rows,) | where(largest_before == largest, 1, exp(largest_before - largest)) |
///                 | head.0.rows.0.context    | (rows, d_v)    | where(tile.1.sum[:, None] == 0, 0, tile.1.partial / tile.1.sum[:, None]) |
///                 | head.0.context           | (n, d_v)       | concat(rows.0.context, rows.1.context, axis=0)      |
///                 | context                  | (b, h, n, d_v) | reshape(concat(head.0.context, axis=0), 1, 1, 90, 8) |
///
///                 and so on for each head, each tile `rows.R` of 60 queries and each tile `tile.T` of 128 keys that it
///                 meets. From the second tile on, `largest`, `sum` and `partial` follow from those of the tile before,
///                 which are called `largest_before`, `sum_before` and `partial_before`. With a mask `masked` stands in
///                 place of `scaled`. In a batch of several sequences, heads are `sequence.0.head.0`. The steps are the
///                 numbers of the kernel, in float32, and their module says so, so that they are verified as such.
/// @throws ShapeError where shapes disagree, g does not divide h, or a length is negative or greater than m
/// @throws Error      where a pointer to numbers is null, or it is causal by length and there are no lengths
/// @see Milakov and Gimelshein 2018 (the softmax of a stream); Dao et al. 2022, FlashAttention, algorithm 1
void attention(const HeadRows<const float>& queries, const HeadRows<const float>& keys,
               const HeadRows<const float>& values, const Scoring& scoring, const HeadRows<float>& context,
               const SoftmaxSums& sums = {}, const Trace& trace = {});

} // namespace attn::fast
