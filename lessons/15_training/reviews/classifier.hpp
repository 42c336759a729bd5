#pragma once

#include "attn/reference/layers/embedding.hpp"
#include "attn/reference/layers/linear.hpp"
#include "attn/reference/models/keras_attention.hpp"

#include <optional>

namespace attn {

/// The learned parameters of a classifier of texts by one layer of attention.
struct ReviewClassifierWeights {
    EmbeddingWeights embedding;      ///< a row of d_model features per word
    KerasAttentionWeights attention; ///< from d_model to heads side by side, h d_v wide
    LinearWeights output;            ///< (h d_v, 1), with a bias (1)
};

/// Options of review_classifier().
struct ReviewClassifierOptions {
    std::size_t heads = 8;
    bool has_positions = false; ///< adds sinusoidal positions to the embedded words
};

/// Says whether a text is one thing or the other, such as a favourable review: embedded words, one layer of multi-head
/// self-attention without an output map, the mean over all words, dropout, and one output.
///
/// @param ids           (b, n): words, rows of the embedding
/// @param dropout_mask  (b, h d_v): 0 for a feature that is dropped, 1 / (1 - rate) for one that is kept; none where the
///                      classifier is used and not trained
/// @param weights       of the embedding, the attention and the output
/// @param options       heads, positions
/// @param trace    in the scope attention the steps of keras_attention(), and
///
///                 | step           | shape                 | formula                                  |
///                 |----------------|-----------------------|------------------------------------------|
///                 | ids            | (b, n)                |                                          |
///                 | table          | (vocabulary, d_model) |                                          |
///                 | tokens         | (b, n, d_model)       | table[ids]                               |
///                 | frequencies    | (pairs,)              | as sinusoidal_positions()                |
///                 | angles         | (n, pairs)            | as sinusoidal_positions()                |
///                 | positions      | (n, d)                | as sinusoidal_positions()                |
///                 | placed         | (b, n, d_model)       | tokens + positions                       |
///                 | pooled         | (b, h_d_v)            | mean(attention.output, axis=1)           |
///                 | dropout_mask   | (b, h_d_v)            |                                          |
///                 | dropped        | (b, h_d_v)            | pooled * dropout_mask                    |
///                 | output_weights | (h_d_v, d_out)        |                                          |
///                 | output_bias    | (d_out,)              |                                          |
///                 | output         | (b, d_out)            | dropped @ output_weights + output_bias   |
///                 | logits         | (b,)                  | output[:, 0]                             |
///
///                 `attention.x`, `attention.memory` and `attention.value_memory` are `placed`, or without positions `tokens`;
///                 without a mask the output maps `pooled`
/// @return the logits, (b): the probability of the label 1 is sigmoid(logit)
/// @throws ShapeError where an id is no row of the embedding, or weights and mask disagree
/// @see document 001 of docs/sources.md, whose experiment this is
Vector review_classifier(const IntegerMatrix& ids, const std::optional<Matrix>& dropout_mask,
                         const ReviewClassifierWeights& weights, const ReviewClassifierOptions& options = {},
                         const Trace& trace = {});

} // namespace attn
