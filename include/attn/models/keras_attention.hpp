#pragma once

#include "attn/layers/multi_head.hpp"
#include "attn/ops/batch.hpp"

namespace attn {

/// The learned parameters of Keras-style attention: dense layers without biases, and nothing behind the heads.
struct KerasAttentionWeights {
    Matrix query; ///< (d_model, h d_k)
    Matrix key;   ///< (d_memory, h d_k)
    Matrix value; ///< (d_value, h d_v)
};

/// What is real, as numbers: 1 for a token, 0 for padding.
template <Sequence T>
struct KerasMasksOf {
    std::optional<PerToken<T>> values = {};  ///< v_mask, ((b,) m): what may be looked at
    std::optional<PerToken<T>> queries = {}; ///< q_mask, ((b,) n): whose output counts
};
using KerasMasks = KerasMasksOf<Matrix>;
using BatchKerasMasks = KerasMasksOf<Tensor3>;

/// What keras_attention() may be told.
struct KerasAttentionOptions {
    std::size_t heads = 1;
    bool mask_right = false; ///< no later keys; where n and m differ, the first query sees the first key only
    double penalty = 1e10; ///< subtracted from the scores of what may not be looked at; 1e12 in the TensorFlow version
};

/// Multi-head attention as an early Keras layer has it: no biases, no map behind the heads, masks by arithmetic.
///
/// What may not be looked at loses a large number before softmax, which makes its weight zero, as minus infinity would,
/// **as long as something else is left**. Where nothing is left, all scores lose the same, softmax does not notice, and
/// the query attends to padding as if there were no mask (in float32 evenly, since the scores themselves are lost in so
/// large a number). With minus infinity attn has weights of zero there. Queries that are padding are computed all the
/// same, and multiplied by zero at the end.
///
/// @param x             ((b,) n, d_model): they ask
/// @param memory        ((b,) m, d_memory): keys are made of them
/// @param value_memory  ((b,) m, d_value): values are made of them
/// @param weights       the packed maps of all heads
/// @param masks         of values and queries
/// @param options       heads, mask_right, penalty
/// @param trace    | step                | shape              | formula                                       |
///                 |---------------------|--------------------|-----------------------------------------------|
///                 | x                   | ((b,) n, d_model)  |                                               |
///                 | memory              | ((b,) m, d_memory) |                                               |
///                 | value_memory        | ((b,) m, d_value)  |                                               |
///                 | query_weights       | (d_model, h_d_k)   |                                               |
///                 | query               | ((b,) n, h_d_k)    | x @ query_weights                             |
///                 | key_weights         | (d_memory, h_d_k)  |                                               |
///                 | key                 | ((b,) m, h_d_k)    | memory @ key_weights                          |
///                 | value_weights       | (d_value, h_d_v)   |                                               |
///                 | value               | ((b,) m, h_d_v)    | value_memory @ value_weights                  |
///                 | value_mask          | ((b,) m)           |                                               |
///                 | head.0.queries      | ((b,) n, d_k)      | query[..., 0:3]                               |
///                 | head.0.keys         | ((b,) m, d_k)      | key[..., 0:3]                                 |
///                 | head.0.values       | ((b,) m, d_v)      | value[..., 0:3]                               |
///                 | head.0.scores       | ((b,) n, m)        | queries @ keys.T                              |
///                 | head.0.scaled       | ((b,) n, m)        | scores / sqrt(keys.shape[-1])                 |
///                 | head.0.value_masked | ((b,) n, m)        | scaled - (1 - value_mask[..., None, :]) * 1e+10 |
///                 | head.0.right_masked | ((b,) n, m)        | value_masked - (arange(M) > arange(N)[:, None]) * 1e+10 |
///                 | head.0.weights      | ((b,) n, m)        | softmax(right_masked)                         |
///                 | head.0.context      | ((b,) n, d_v)      | weights @ values                              |
///                 | merged              | ((b,) n, h_d_v)    | concat(head.0.context, axis=-1)               |
///                 | query_mask          | ((b,) n)           |                                               |
///                 | output              | ((b,) n, h_d_v)    | merged * query_mask[..., None]                |
///
///                 with the numbers in place of N and M; what is not masked has no such step, and `output` is `merged`
/// @throws ShapeError where x, memories, weights and masks disagree, or h does not divide the columns of the weights
/// @see seed document 001 and the program that it publishes; docs/notation.md on a query that may attend to nothing
MultiHead keras_attention(const Matrix& x, const Matrix& memory, const Matrix& value_memory,
                          const KerasAttentionWeights& weights, const KerasMasks& masks = {},
                          const KerasAttentionOptions& options = {}, const Trace& trace = {});
/// The same for a batch.
BatchMultiHead keras_attention(const Tensor3& x, const Tensor3& memory, const Tensor3& value_memory,
                               const KerasAttentionWeights& weights, const BatchKerasMasks& masks = {},
                               const KerasAttentionOptions& options = {}, const Trace& trace = {});

} // namespace attn
