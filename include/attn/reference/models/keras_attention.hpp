#pragma once

#include "attn/reference/layers/multi_head.hpp"
#include "attn/reference/ops/batch.hpp"

namespace attn {

/// The learned parameters of Keras-style attention: dense layers without biases, and nothing after the heads.
struct KerasAttentionWeights {
    Matrix query; ///< (d_model, h d_k)
    Matrix key;   ///< (d_memory, h d_k)
    Matrix value; ///< (d_value, h d_v)
};

/// Which tokens are real: 1 for a token, 0 for padding.
template <Sequence T>
struct KerasMasksOf {
    std::optional<PerToken<T>> values = {};  ///< v_mask, ((b,) m): which keys can be attended to
    std::optional<PerToken<T>> queries = {}; ///< q_mask, ((b,) n): whose output is not set to 0
};
using KerasMasks = KerasMasksOf<Matrix>;
using BatchKerasMasks = KerasMasksOf<Tensor3>;

/// Options of keras_attention().
struct KerasAttentionOptions {
    std::size_t heads = 1;
    bool mask_right = false; ///< no later keys; where n and m differ, the first query can attend to the first key only
    double penalty = 1e10;   ///< subtracted from the scores of forbidden pairs; 1e12 in the TensorFlow version
};

/// Multi-head attention as an early Keras layer has it: no biases, no map after the heads, masks by arithmetic.
///
/// It is multi_head_attention() with a bias of ((b,) n, m), times a mask of the queries. A large number is subtracted
/// from the scores of forbidden pairs before softmax. Their weight is then zero, as with minus infinity, **as long as
/// the query has an allowed key**. If it has none, the same number is subtracted from all its scores, softmax does not
/// change, and the query attends to padding as if there were no mask (in float32 with equal weights, since the digits
/// of the scores are lost). With minus infinity attn has weights of zero there. Queries that are padding are computed
/// as well, and their outputs multiplied by zero at the end.
///
/// @param x             ((b,) n, d_model): queries are made of them
/// @param memory        ((b,) m, d_memory): keys are made of them
/// @param value_memory  ((b,) m, d_value): values are made of them
/// @param masks         of values and queries; optional
/// @param weights       the packed maps of all heads
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
///                 | bias                | ((b,) n, m)        | (value_mask[..., None, :] - 1) * 1e+10 - (arange(M) > arange(N)[:, None]) * 1e+10 |
///                 | head.0.queries      | ((b,) n, d_k)      | query[..., 0:3]                               |
///                 | head.0.keys         | ((b,) m, d_k)      | key[..., 0:3]                                 |
///                 | head.0.values       | ((b,) m, d_v)      | value[..., 0:3]                               |
///                 | head.0.scores       | ((b,) n, m)        | queries @ keys.T                              |
///                 | head.0.scaled       | ((b,) n, m)        | scores / sqrt(keys.shape[-1])                 |
///                 | head.0.biased       | ((b,) n, m)        | scaled + bias                                 |
///                 | head.0.weights      | ((b,) n, m)        | softmax(biased)                               |
///                 | head.0.context      | ((b,) n, d_v)      | weights @ values                              |
///                 | merged              | ((b,) n, h_d_v)    | concat(head.0.context, axis=-1)               |
///                 | query_mask          | ((b,) n)           |                                               |
///                 | output              | ((b,) n, h_d_v)    | merged * query_mask[..., None]                |
///
///                 with the numbers in place of N and M; with one of the two terms where the other is not asked for (the
///                 second alone is (n, m), the same for all sequences), and no bias where none is; without a query mask `output` is another name of `merged`
/// @throws ShapeError where x, memories, weights and masks disagree, or h does not divide the columns of the weights
/// @see document 001 of docs/sources.md and the program that it publishes; docs/notation.md on a query that can attend to nothing
template <Sequence T>
MultiHeadOf<T> keras_attention(const T& x, const T& memory, const T& value_memory, const KerasMasksOf<T>& masks,
                               const KerasAttentionWeights& weights, const KerasAttentionOptions& options = {},
                               const Trace& trace = {});
ATTN_REFUSE_OTHER_TENSORS(keras_attention);

} // namespace attn
