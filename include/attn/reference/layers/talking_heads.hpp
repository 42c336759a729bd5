#pragma once

#include "attn/reference/layers/multi_head.hpp"

namespace attn {

/// The learned parameters of talking-heads attention: the maps of the heads, and two matrices that mix heads.
///
/// The rows and columns of the mixing matrices give the numbers of heads: h_k heads of queries and keys, h softmaxes,
/// and h_v heads of values. In most models the three numbers are equal.
struct TalkingHeadsWeights {
    MultiHeadWeights maps; ///< columns of query and key are divided among h_k heads, those of value among h_v
    Matrix scores;         ///< P_l, (h_k, h): before softmax, the weight of each comparison in each softmax
    Matrix weights;        ///< P_w, (h, h_v): after softmax, the weight of each softmax in each head of values
};

/// Options of talking_heads_attention().
struct TalkingHeadsOptions {
    OptionalMask mask = {};            ///< (n, n), (b, n, n) or (b, h, n, n), true where a query can attend
    std::optional<Causal> causal = {}; ///< no later keys; joined with the mask that is given
    std::optional<double> scale = {};  ///< what scores are multiplied by; 1/sqrt(d_k) unless given
};

/// Talking-heads self-attention: heads are mixed before softmax and once more after it.
///
/// The scores of one head are a bilinear form of rank d_k. A mixture of all heads' scores is one of rank up to h d_k,
/// and costs h h n m multiplications. With identities for both mixtures it is multi_head_attention().
///
/// The mask is applied after the first mixture and before softmax, of each head its own where there is one: minus infinity times a negative number
/// would be plus infinity. After softmax a forbidden key has weight 0 in every head, so also in every mixture. The
/// mixed weights can be negative, and their rows need not sum to one.
///
/// @param x        ((b,) n, d_model)
/// @param weights  the packed maps of all heads, and both mixtures
/// @param options  mask; causal or not; scale
/// @param trace    | step                 | shape             | formula                               |
///                 |----------------------|-------------------|---------------------------------------|
///                 | x                    | ((b,) n, d_model) |                                       |
///                 | query_weights        | (d_model, h_d_k)  |                                       |
///                 | query_bias           | (h_d_k,)          |                                       |
///                 | query                | ((b,) n, h_d_k)   | x @ query_weights + query_bias        |
///                 | key_weights          | (d_model, h_d_k)  |                                       |
///                 | key_bias             | (h_d_k,)          |                                       |
///                 | key                  | ((b,) m, h_d_k)   | x @ key_weights + key_bias            |
///                 | value_weights        | (d_model, h_d_v)  |                                       |
///                 | value_bias           | (h_d_v,)          |                                       |
///                 | value                | ((b,) m, h_d_v)   | x @ value_weights + value_bias        |
///                 | talking_scores       | (h_k, h)          |                                       |
///                 | talking_weights      | (h, h_v)          |                                       |
///                 | head.0.queries       | ((b,) n, d_k)     | query[..., 0:3]                       |
///                 | head.0.keys          | ((b,) m, d_k)     | key[..., 0:3]                         |
///                 | head.0.scores        | ((b,) n, m)       | queries @ keys.T                      |
///                 | head.0.scaled        | ((b,) n, m)       | scores / sqrt(keys.shape[-1])         |
///                 | head.0.mixed_scores  | ((b,) n, m)       | head.0.scaled * talking_scores[0, 0]  |
///                 | head.0.weights       | ((b,) n, m)       | softmax(mixed_scores)                 |
///                 | head.0.mixed_weights | ((b,) n, m)       | head.0.weights * talking_weights[0, 0] |
///                 | head.0.values        | ((b,) m, d_v)     | value[..., 0:3]                       |
///                 | head.0.context       | ((b,) n, d_v)     | mixed_weights @ values                |
///                 | merged               | ((b,) n, h_d_v)   | concat(head.0.context, axis=-1)       |
///                 | output_weights       | (h_d_v, d_model)  |                                       |
///                 | output_bias          | (d_model,)        |                                       |
///                 | output               | ((b,) n, d_model) | merged @ output_weights + output_bias |
///
///                 with as many heads of each kind as there are, kind by kind, and a term per head in the mixtures; with
///                 a given scale `scaled` is `scores * SCALE`; with a mask, it stands before the heads, and `masked`,
///                 which is `where(mask, mixed_scores, -inf)`, before each head's `weights`; without an output map
///                 `output` is another name of `merged`
/// @return the output, and of each of the h_v heads of values the mixed weights
/// @throws ShapeError where x, the maps and the mixtures disagree, or the mask does not fit
/// @see Shazeer et al. 2020, "Talking-Heads Attention"
template <Sequence T>
MultiHeadOf<T> talking_heads_attention(const T& x, const TalkingHeadsWeights& weights,
                                       const TalkingHeadsOptions& options = {}, const Trace& trace = {});
ATTN_REFUSE_OTHER_TENSORS(talking_heads_attention);

} // namespace attn
