#pragma once

#include "attn/reference/attention/weigh.hpp"

namespace attn {

/// The learned parameters of additive attention.
struct AdditiveWeights {
    Matrix query; ///< (d_q, d_hidden)
    Matrix key;   ///< (d_k, d_hidden)
    Vector score; ///< (d_hidden)
};

/// Additive attention: a small network scores a query and a key of any two sizes, w_v . tanh(q W_q + k W_k).
///
/// @param queries  (n, d_q)
/// @param keys     (m, d_k)
/// @param values   (m, d_v)
/// @param weights  one hidden layer of d_hidden units, without bias
/// @param options  mask; causal or not; normalisation
/// @param trace    | step          | shape            | formula                                       |
///                 |---------------|------------------|-----------------------------------------------|
///                 | queries       | (n, d_q)         |                                               |
///                 | keys          | (m, d_k)         |                                               |
///                 | values        | (m, d_v)         |                                               |
///                 | query_weights | (d_q, d_hidden)  |                                               |
///                 | key_weights   | (d_k, d_hidden)  |                                               |
///                 | score_weights | (d_hidden,)      |                                               |
///                 | query_part    | (n, d_hidden)    | queries @ query_weights                       |
///                 | key_part      | (m, d_hidden)    | keys @ key_weights                            |
///                 | hidden        | (n, m, d_hidden) | tanh(query_part[:, None, :] + key_part)       |
///                 | scores        | (n, m)           | hidden @ score_weights                        |
///                 | weights       | (n, m)           | softmax(scores)                               |
///                 | context       | (n, d_v)         | weights @ values                              |
///
///                 and with a mask the steps of weigh_values() before `weights`
/// @throws ShapeError where tensors disagree in d_q, d_k, d_hidden or m, or with the mask
/// @see Bahdanau et al. 2015, appendix A.1.2; document 002 of docs/sources.md
Attention additive_attention(const Matrix& queries, const Matrix& keys, const Matrix& values,
                             const AdditiveWeights& weights, const WeighingOptions& options = {},
                             const Trace& trace = {});

/// The learned parameters of additive attention in its concatenated form.
struct ConcatenatedWeights {
    Matrix hidden; ///< (d_q + d_k, d_hidden)
    Vector score;  ///< (d_hidden)
};

/// W_q on top of W_k: the concatenated form of the same additive score.
/// @throws ShapeError where query and key weights disagree in d_hidden
ConcatenatedWeights concatenate(const AdditiveWeights& weights);

/// Additive attention in its concatenated form: w . tanh([q; k] W).
///
/// The same scores as additive_attention() with `concatenate(weights)`, at n m (d_q + d_k) d_hidden multiplications
/// instead of n d_q d_hidden + m d_k d_hidden, because each pair is multiplied by the hidden layer's matrix.
///
/// @param queries  (n, d_q)
/// @param keys     (m, d_k)
/// @param values   (m, d_v)
/// @param weights  one hidden layer of d_hidden units, without bias
/// @param options  mask; causal or not; normalisation
/// @param trace    | step           | shape               | formula                    |
///                 |----------------|---------------------|----------------------------|
///                 | queries        | (n, d_q)            |                            |
///                 | keys           | (m, d_k)            |                            |
///                 | values         | (m, d_v)            |                            |
///                 | hidden_weights | (d_pair, d_hidden)  |                            |
///                 | score_weights  | (d_hidden,)         |                            |
///                 | pairs          | (n, m, d_pair)      | concat(repeat(queries[:, None, :], keys.shape[0], axis=1), repeat(keys[None, :, :], queries.shape[0], axis=0), axis=2) |
///                 | hidden         | (n, m, d_hidden)    | tanh(pairs @ hidden_weights) |
///                 | scores         | (n, m)              | hidden @ score_weights     |
///                 | weights        | (n, m)              | softmax(scores)            |
///                 | context        | (n, d_v)            | weights @ values           |
///
///                 and with a mask the steps of weigh_values() before `weights`
/// @throws ShapeError where tensors disagree in d_q + d_k, d_hidden or m, or with the mask
/// @see Luong et al. 2015, section 3.1 ("concat"); documents 001 and 002 of docs/sources.md
Attention concatenated_attention(const Matrix& queries, const Matrix& keys, const Matrix& values,
                                 const ConcatenatedWeights& weights, const WeighingOptions& options = {},
                                 const Trace& trace = {});

} // namespace attn
