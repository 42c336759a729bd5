#pragma once

#include "attn/core/tensor.hpp"
#include "attn/core/trace.hpp"

#include <cstddef>

namespace attn {

/// In which order the sines and cosines of a position stand.
enum class SineLayout {
    interleaved, ///< sin cos sin cos …, as Vaswani et al. 2017 and document 001 of docs/sources.md write it
    halves       ///< all sines, then all cosines: the same numbers in another order
};

/// Options of sinusoidal_positions().
struct SinusoidalOptions {
    double base = 10000;
    SineLayout layout = SineLayout::interleaved;
    std::size_t first = 0; ///< the position of the first token: not 0 where earlier ones are in a cache
};

/// Sinusoidal position embeddings: PE[p, 2i] = sin(p / base^(2i / d)), PE[p, 2i + 1] = cos(p / base^(2i / d)).
///
/// Each pair of features is a point on a circle, which rotates with the position: the first pair by one radian per
/// position, the last very slowly. An odd d has one more sine than cosines.
///
/// @param n        positions
/// @param d        features
/// @param options  base, layout, first position
/// @param trace    | step        | shape   | formula                                           |
///                 |-------------|---------|---------------------------------------------------|
///                 | frequencies | (pairs,) | 10000 ** (-2 * arange(PAIRS) / D)                |
///                 | angles      | (n, pairs) | outer(arange(N), frequencies)                  |
///                 | positions   | (n, d)  | interleave(sin(angles), cos(angles))              |
///
///                 with the numbers in place of PAIRS, N and D; followed by `[:, 0:D]` where d is odd; in halves
///                 `concat(sin(angles), cos(angles), axis=1)`
/// @return (n, d)
/// @see Vaswani et al. 2017, section 3.5; documents 001 and 003 of docs/sources.md
Matrix sinusoidal_positions(std::size_t n, std::size_t d, const SinusoidalOptions& options = {},
                            const Trace& trace = {});

/// The map from every sinusoidal position to the one k later: positions(p + k) = positions(p) @ shift, for every p.
///
/// Each pair of features is rotated by k times its frequency: sin(a + b) and cos(a + b) are linear in sin(a), cos(a).
/// @param k        positions; can be negative
/// @param d        features, even
/// @param options  base and layout of the positions
/// @return (d, d): a rotation of the plane for each pair, zero elsewhere
/// @throws ShapeError where d is odd: the last sine has no cosine
/// @see Vaswani et al. 2017, section 3.5; document 001 of docs/sources.md
Matrix position_shift(double k, std::size_t d, const SinusoidalOptions& options = {});

/// Learned position embeddings: the first n rows of a table.
/// @param table  (n_max, d)
/// @param n      positions
/// @param first  the position of the first token
/// @param trace  | step      | shape      | formula    |
///               |-----------|------------|------------|
///               | table     | (n_max, d) |            |
///               | positions | (n, d)     | table[0:N] |
/// @return (n, d)
/// @throws ShapeError where the table ends before first + n
/// @see Gehring et al. 2017, section 3.1
Matrix learned_positions(const Matrix& table, std::size_t n, std::size_t first = 0, const Trace& trace = {});
/// The same of a term.
Term<Matrix> learned_positions(const Term<Matrix>& table, std::size_t n, std::size_t first, const Trace& trace);

/// The same of an image's patches, whose table was learned for a square of them: resized to so many rows and columns, each position
/// averages those near it. As torch's F.interpolate(mode="bilinear", antialias=True).
/// @param table  (g * g, d), row by row
/// @param trace  | step           | shape      | formula                                                                        |
///               |----------------|------------|--------------------------------------------------------------------------------|
///               | table          | (n_max, d) |                                                                                |
///               | row_nearness   | (rows, g)  | maximum(1 - abs(arange(G) + 0.5 - (arange(R)[:, None] + 0.5) * (G / R)) / maximum(G / R, 1), 0) |
///               | row_weights    | (rows, g)  | row_nearness / sum(row_nearness, axis=-1, keepdims=True)                       |
///               | positions      | (n, d)     | reshape(column_weights @ reshape(row_weights @ reshape(table, G, G * D), R, G, D), R * C, D) |
///
///               with the numbers in place of the R rows and C columns, whose steps follow those of the rows
/// @return (rows * columns, d)
/// @throws ShapeError where the table is of no square
/// @see Tschannen et al. 2025, "SigLIP 2", section 2.4.2
Term<Matrix> resized_positions(const Term<Matrix>& table, std::size_t rows, std::size_t columns, const Trace& trace);

/// ALiBi's slopes, one per head: 2^(-8/h), 2^(-16/h), … 2^-8 for h heads, a power of two.
///
/// For another number of heads, the slopes of the next smaller power of two, then every second one of the next larger.
/// @return (h)
/// @see Press, Smith and Lewis 2022, section 3, and the authors' program for other numbers
Vector alibi_slopes(std::size_t heads);

/// ALiBi (attention with linear biases): the slope times the distance between query and key is subtracted from a score.
/// @param n      queries, the last of which stands where the last key does
/// @param m      keys
/// @param slope  of one head
/// @param trace  | step | shape  | formula                                                |
///               |------|--------|--------------------------------------------------------|
///               | bias | (n, m) | -SLOPE * abs(arange(N)[:, None] + (M - N) - arange(M)) |
/// @return (n, m), to be added to scaled scores
/// @see Press, Smith and Lewis 2022, section 3. The paper's queries attend to earlier keys only; here
///      later keys get the same bias at the same distance.
Matrix alibi_bias(std::size_t n, std::size_t m, double slope, const Trace& trace = {});
/// Of tokens that stand anywhere: -SLOPE * abs(positions[:, None] - key_positions).
/// @param queries  (n): the position of each query
/// @param keys     (m): that of each key
Matrix alibi_bias(const Integers& queries, const Integers& keys, double slope, const Trace& trace = {});

/// How distances between tokens are divided into buckets.
struct DistanceBuckets {
    std::size_t farthest = 128; ///< the distance from which on all are in the last bucket
    bool is_bidirectional =
        true; ///< later keys have buckets of their own, half of them; otherwise they are in the first
};

/// A learned bias by distance: half of the buckets are of one distance each, the others reach exponentially farther.
///
/// @param n        queries, the last of which stands where the last key does
/// @param m        keys
/// @param table    (buckets, h): a number for each bucket and head
/// @param options  the farthest distance; whether later keys have buckets of their own
/// @param trace    | step      | shape          | formula                                                                     |
///                 |-----------|----------------|-----------------------------------------------------------------------------|
///                 | table     | (buckets, h)   |                                                                             |
///                 | ahead     | (n, m)         | arange(M) - (arange(N)[:, None] + (M - N))                                  |
///                 | distances | (n, m)         | abs(ahead)                                                                  |
///                 | far       | (n, m)         | EXACT + floor(log(maximum(distances, EXACT) / EXACT) / LOG * (B - EXACT))   |
///                 | near      | (n, m)         | where(distances < EXACT, distances, minimum(far, B - 1))                    |
///                 | buckets   | (n, m)         | where(ahead > 0, near + B, near)                                            |
///                 | bias      | (one, h, n, m) | permute(table[buckets], 2, 0, 1)[None]                                      |
///
///                 with the numbers in place of capitals: B half of the buckets, EXACT half of B, LOG = log(farthest / EXACT).
///                 Where it is not bidirectional, `distances` is `maximum(-ahead, 0)`, B is all buckets, and `near` is the
///                 bucket.
/// @return (1, h, n, m), to be added to scores
/// @throws ShapeError where the table has fewer than 4 buckets, or the farthest distance is none of the later ones
/// @see Raffel et al. 2020, "Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer", section 2.1,
///      and the authors' program (mesh_tensorflow, transformer_layers.py)
Tensor4 bucket_bias(std::size_t n, std::size_t m, const Matrix& table, const DistanceBuckets& options,
                    const Trace& trace = {});
/// Of tokens that stand anywhere: `ahead` is key_positions - positions[:, None].
Tensor4 bucket_bias(const Integers& queries, const Integers& keys, const Matrix& table, const DistanceBuckets& options,
                    const Trace& trace = {});

} // namespace attn
