#pragma once

#include "attn/reference/layers/multi_head.hpp"

namespace attn {

/// The learned parameters of differential attention: the maps of the heads, the vectors of lambda, and a norm.
///
/// Queries and keys of a head have 2 d_k features: those of its first softmax, then those of its second.
struct DifferentialAttentionWeights {
    MultiHeadWeights
        maps;            ///< columns of query and key are divided among h heads, then in halves; those of value among h
    Vector lambda_q1;    ///< (d_k)
    Vector lambda_k1;    ///< (d_k)
    Vector lambda_q2;    ///< (d_k)
    Vector lambda_k2;    ///< (d_k)
    RmsNormWeights norm; ///< (d_v), which the heads share; in the paper d_v is 2 d_k
};

/// Options of differential_attention().
struct DifferentialAttentionOptions {
    std::size_t heads = 1;
    double lambda_init = 0.2;          ///< of the paper's first layer; its layer l has 0.8 - 0.6 exp(-0.3 (l - 1))
    OptionalMask mask = {};            ///< (n, n), (b, n, n) or (b, h, n, n), true where a query can attend
    std::optional<Causal> causal = {}; ///< no later keys; joined with the mask that is given
    std::optional<double> scale = {};  ///< what scores are multiplied by; 1/sqrt(d_k) unless given
    RmsNormOptions norm = {};          ///< of what each head gives
};

/// Differential self-attention: the weights of a head are a difference of two softmaxes.
///
/// Softmax gives every key some weight, also those that have nothing to do with the query. Each head makes two maps of
/// weights, from two halves of its queries and keys, and subtracts lambda times the second from the first: what both give
/// to irrelevant keys cancels. Weights can be negative, and a row sums to 1 - lambda.
///
/// The factor lambda is learned. It is made of four vectors, which all heads share, and begins near lambda_init. A difference
/// is smaller than an average, so each head is normalised by itself; the factor 1 - lambda_init keeps gradients about as
/// large as those of multi-head attention.
///
/// @param x        ((b,) n, d_model)
/// @param weights  the packed maps of all heads, the vectors of lambda, and the gain of the norm
/// @param options  heads; lambda_init; mask; causal or not; scale; epsilon of the norm
/// @param trace    | step                 | shape             | formula                                           |
///                 |----------------------|-------------------|---------------------------------------------------|
///                 | x                    | ((b,) n, d_model) |                                                   |
///                 | query_weights        | (d_model, h_d_k)  |                                                   |
///                 | query_bias           | (h_d_k,)          |                                                   |
///                 | query                | ((b,) n, h_d_k)   | x @ query_weights + query_bias                    |
///                 | key_weights          | (d_model, h_d_k)  |                                                   |
///                 | key_bias             | (h_d_k,)          |                                                   |
///                 | key                  | ((b,) m, h_d_k)   | x @ key_weights + key_bias                        |
///                 | value_weights        | (d_model, h_d_v)  |                                                   |
///                 | value_bias           | (h_d_v,)          |                                                   |
///                 | value                | ((b,) m, h_d_v)   | x @ value_weights + value_bias                    |
///                 | lambda_q1            | (d_k,)            |                                                   |
///                 | lambda_k1            | (d_k,)            |                                                   |
///                 | lambda_q2            | (d_k,)            |                                                   |
///                 | lambda_k2            | (d_k,)            |                                                   |
///                 | lambda_full          | ()                | exp(sum(lambda_q1 * lambda_k1)) - exp(sum(lambda_q2 * lambda_k2)) + 0.2 |
///                 | norm.gain            | (d_v,)            |                                                   |
///                 | head.0.first.queries | ((b,) n, d_k)     | query[..., 0:2]                                   |
///                 | head.0.first.keys    | ((b,) m, d_k)     | key[..., 0:2]                                     |
///                 | head.0.first.scores  | ((b,) n, m)       | queries @ keys.T                                  |
///                 | head.0.first.scaled  | ((b,) n, m)       | scores / sqrt(keys.shape[-1])                     |
///                 | head.0.first.weights | ((b,) n, m)       | softmax(scaled)                                   |
///                 | head.0.second.queries | ((b,) n, d_k)    | query[..., 2:4]                                   |
///                 | head.0.second.keys   | ((b,) m, d_k)     | key[..., 2:4]                                     |
///                 | head.0.second.scores | ((b,) n, m)       | queries @ keys.T                                  |
///                 | head.0.second.scaled | ((b,) n, m)       | scores / sqrt(keys.shape[-1])                     |
///                 | head.0.second.weights | ((b,) n, m)      | softmax(scaled)                                   |
///                 | head.0.weights       | ((b,) n, m)       | first.weights - lambda_full * second.weights      |
///                 | head.0.values        | ((b,) m, d_v)     | value[..., 0:4]                                   |
///                 | head.0.context       | ((b,) n, d_v)     | weights @ values                                  |
///                 | head.0.norm.x        | ((b,) n, d_v)     | = context                                         |
///                 | head.0.rescaled      | ((b,) n, d_v)     | norm.output * (1 - 0.2)                           |
///                 | merged               | ((b,) n, h_d_v)   | concat(head.0.rescaled, axis=-1)                  |
///                 | output_weights       | (h_d_v, d_model)  |                                                   |
///                 | output_bias          | (d_model,)        |                                                   |
///                 | output               | ((b,) n, d_model) | merged @ output_weights + output_bias             |
///
///                 with as many heads as asked for, and in each head's scope `norm` the steps of rms_norm(); h_d_k is
///                 h times 2 d_k; with a given scale `scaled` is `scores * SCALE`; with a mask, it stands before the heads,
///                 and `masked`, which is `where(mask, scaled, -inf)`, before both `weights`; without an output map
///                 `output` is another name of `merged`
/// @return the output, and of each head the difference of its two maps of weights
/// @throws ShapeError where x and the weights disagree, the heads and their halves do not divide the columns, or the mask does
///                    not fit
/// @see Ye et al. 2024, "Differential Transformer", section 2.1
template <Sequence T>
MultiHeadOf<T> differential_attention(const T& x, const DifferentialAttentionWeights& weights,
                                      const DifferentialAttentionOptions& options = {}, const Trace& trace = {});
ATTN_REFUSE_OTHER_TENSORS(differential_attention);

} // namespace attn
