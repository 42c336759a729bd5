#pragma once

#include "attn/layers/position.hpp"

#include <optional>

namespace attn {

/// What embed() may be told.
struct EmbeddingOptions {
    std::optional<double> scale = {}; ///< what a row of the table is multiplied by; sqrt(d_model) unless given
    SinusoidalOptions positions =
        {}; ///< `first` is the place of the first token: not 0 where earlier ones are in a cache
};

/// Tokens from their numbers: rows of a table, scaled, with sinusoidal positions added.
///
/// A table that also makes logits has rows of about unit length, features of about 1/sqrt(d_model): scaled by the root they
/// are as large as the positions.
///
/// @param ids      (n), whole numbers below the vocabulary's size
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
///                 with a scale of the caller's, `scaled` is `tokens * SCALE`
/// @return (n, d_model)
/// @throws ShapeError where an id is no row of the table
/// @see Vaswani et al. 2017, sections 3.4 and 3.5
Matrix embed(const Vector& ids, const Matrix& table, const EmbeddingOptions& options = {}, const Trace& trace = {});

/// The way back, with the same table (tied weights): how well each word of the vocabulary answers to a token.
///
/// @param x      (n, d_model): what the decoder gave
/// @param table  (vocabulary, d_model)
/// @param trace  | step   | shape                 | formula     |
///               |--------|-----------------------|-------------|
///               | x      | (n, d_model)          |             |
///               | table  | (vocabulary, d_model) |             |
///               | logits | (n, vocabulary)       | x @ table.T |
///
///               a table that a scope around has named is not named again
/// @return (n, vocabulary): softmax makes probabilities of the next token of them
/// @throws ShapeError where x and table disagree in d_model
/// @see Vaswani et al. 2017, section 3.4; Press and Wolf 2017
Matrix unembed(const Matrix& x, const Matrix& table, const Trace& trace = {});

} // namespace attn
