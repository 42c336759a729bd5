#pragma once

#include "attn/reference/layers/position.hpp"

#include <optional>

namespace attn {

/// A table with a row for each token, or for each position; nn.Embedding's `weight`.
struct EmbeddingWeights {
    Matrix table; ///< (vocabulary, d_model)
};

/// Embedded tokens: for each id its row of a table, times a scale where there is one.
/// @param ids      (n) or (b, n): rows of the table
/// @param weights  the table
/// @param scale    factor of the rows; optional
/// @param trace    | step   | shape                 | formula        |
///                 |--------|-----------------------|----------------|
///                 | ids    | ((b,) n,)             |                |
///                 | table  | (vocabulary, d_model) |                |
///                 | output | ((b,) n, d_model)     | table[ids]     |
///
///                 with a scale, `output` is `table[ids] * SCALE`
/// @return ((b,) n, d_model)
/// @throws ShapeError where an id is no row of the table
Matrix look_up(const Integers& ids, const EmbeddingWeights& weights, std::optional<double> scale = {},
               const Trace& trace = {});
/// @copydoc look_up(const Integers&, const EmbeddingWeights&, std::optional<double>, const Trace&)
Tensor3 look_up(const IntegerMatrix& ids, const EmbeddingWeights& weights, std::optional<double> scale = {},
                const Trace& trace = {});

/// The same of terms.
Term<Matrix> look_up(const Term<Integers>& ids, const EmbeddingWeights& weights, std::optional<double> scale,
                     const Trace& trace);
Term<Tensor3> look_up(const Term<IntegerMatrix>& ids, const EmbeddingWeights& weights, std::optional<double> scale,
                      const Trace& trace);

/// Options of embed().
struct EmbeddingOptions {
    std::optional<double> scale = {}; ///< what a row of the table is multiplied by; sqrt(d_model) unless given
    SinusoidalOptions positions = {}; ///< `first` is not 0 where earlier tokens are in a cache
};

/// Embedded tokens from ids: rows of a table, scaled, with sinusoidal positions added.
///
/// Where the table also gives the logits, its rows have a length of about 1, so their features are about
/// 1/sqrt(d_model). Scaled by the root of d_model, they are as large as the positions.
///
/// @param ids      (n), below the vocabulary's size
/// @param table    (vocabulary, d_model)
/// @param options  scale, positions
/// @param trace    | step        | shape                 | formula                                 |
///                 |-------------|-----------------------|-----------------------------------------|
///                 | ids         | (n,)                  |                                         |
///                 | table       | (vocabulary, d_model) |                                         |
///                 | tokens      | (n, d_model)          | table[ids]                              |
///                 | scaled      | (n, d_model)          | tokens * sqrt(table.shape[1])           |
///                 | frequencies | (pairs,)              | 10000 ** (-2 * arange(PAIRS) / D)       |
///                 | angles      | (n, pairs)            | outer(arange(N), frequencies)           |
///                 | positions   | (n, d)                | interleave(sin(angles), cos(angles))    |
///                 | output      | (n, d_model)          | scaled + positions                      |
///
///                 with the numbers in place of PAIRS, N and D; a table that a scope around has named is not named again;
///                 with a given scale, `scaled` is `tokens * SCALE`
/// @return (n, d_model)
/// @throws ShapeError where an id is no row of the table
/// @see Vaswani et al. 2017, sections 3.4 and 3.5
Matrix embed(const Integers& ids, const Matrix& table, const EmbeddingOptions& options = {}, const Trace& trace = {});

/// Logits by the same table (tied weights): the dot product of a token with the row of each word of the vocabulary.
///
/// @param x      (n, d_model): the output of a decoder
/// @param table  (vocabulary, d_model)
/// @param trace  | step   | shape                 | formula     |
///               |--------|-----------------------|-------------|
///               | x      | (n, d_model)          |             |
///               | table  | (vocabulary, d_model) |             |
///               | logits | (n, vocabulary)       | x @ table.T |
///
///               a table that a scope around has named is not named again
/// @return (n, vocabulary): softmax turns each row into the probabilities of the next token
/// @throws ShapeError where x and table disagree in d_model
/// @see Vaswani et al. 2017, section 3.4; Press and Wolf 2017
Matrix unembed(const Matrix& x, const Matrix& table, const Trace& trace = {});

} // namespace attn
