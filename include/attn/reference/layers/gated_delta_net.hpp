#pragma once

#include "attn/reference/layers/linear.hpp"
#include "attn/reference/layers/rms_norm.hpp"

#include <cstddef>
#include <optional>
#include <type_traits>

namespace attn {

/// The learned parameters of a gated DeltaNet: g heads of queries and keys, each of which serves h / g heads of values.
struct GatedDeltaNetWeights {
    LinearWeights query; ///< (d_model, g d_k)
    LinearWeights key;   ///< (d_model, g d_k)
    LinearWeights value; ///< (d_model, h d_v)
    LinearWeights gate;  ///< (d_model, h d_v), of the output; Hugging Face calls it z
    LinearWeights beta;  ///< (d_model, h): how much of a value is written; b
    LinearWeights decay; ///< (d_model, h): how much of the state is forgotten; a
    Tensor3 kernel; ///< (2 g d_k + h d_v, 1, width): a filter along the tokens for each feature, as nn.Conv1d has it
    Vector dt_bias; ///< (h), added to what the map of decays gives
    Vector a_log;   ///< (h): the logarithm of each head's rate of forgetting
    RmsNormWeights norm;  ///< (d_v), of what each head reads
    LinearWeights output; ///< (h d_v, d_model)
};

/// Options of gated_delta_net(). The defaults are those of Qwen3-Next.
struct GatedDeltaNetOptions {
    std::optional<std::size_t> key_heads = {}; ///< g; as many as values have unless given
    std::optional<std::size_t> chunk = {};     ///< so many tokens at a time; one after the other unless given
    double epsilon = 1e-6;                     ///< added to the squared lengths of queries and keys, inside the root
    RmsNormOptions norm = {.epsilon = 1e-6};
};

/// A matrix for each head: (h, d_k, d_v), of a batch (b, h, d_k, d_v).
template <Sequence T>
using HeadStates = std::conditional_t<std::same_as<T, Matrix>, Tensor3, Tensor4>;

/// What a gated DeltaNet keeps of earlier tokens: as much after a million tokens as after one.
template <Sequence T>
struct GatedDeltaNetCacheOf {
    T conv_state;                  ///< ((b,) width - 1, 2 g d_k + h d_v): the last tokens, before the convolution
    HeadStates<T> recurrent_state; ///< ((b,) h, d_k, d_v)
};
using GatedDeltaNetCache = GatedDeltaNetCacheOf<Matrix>;

/// The cache of earlier tokens; none at the beginning, which is a cache of zeros.
template <Sequence T>
using PastOfDeltaNet = std::optional<std::type_identity_t<GatedDeltaNetCacheOf<T>>>;

/// The results of gated_delta_net().
template <Sequence T>
struct GatedDeltaNetOf {
    T output; ///< ((b,) n, d_model)
    GatedDeltaNetCacheOf<Value<T>> cache;
};

/// A gated DeltaNet, the linear attention of Qwen3-Next: each head has a state, a matrix that maps keys to values.
///
/// A token first lets the state decay. Then it writes by the delta rule: it looks up what the state has for its key, and adds
/// beta times the difference from its own value, so that a value that is written again replaces the old one instead of being
/// added to it. Last, its query reads the state. With keys k, values v and queries q as rows,
///
///     S_t = exp(g_t) (I - beta_t k_t^T k_t) S_{t-1} + beta_t k_t^T v_t        o_t = q_t S_t
///
/// A token depends on those before it only, and costs as much as the one before. Padding can follow the tokens of a sequence; it
/// must not come before them.
///
/// @param x        ((b,) n, d_model), at least one token
/// @param past     the cache of the tokens before; none at the beginning
/// @param weights  maps, filters, rates and the norm
/// @param options  heads of keys; tokens one after the other, or in chunks; epsilons
/// @param trace    | step                     | shape                   | formula                                                    |
///                 |--------------------------|-------------------------|------------------------------------------------------------|
///                 | x                        | ((b,) n, d_model)       |                                                            |
///                 | query_weights            | (d_model, g_d_k)        |                                                            |
///                 | query                    | ((b,) n, g_d_k)         | x @ query_weights                                          |
///                 | key_weights              | (d_model, g_d_k)        |                                                            |
///                 | key                      | ((b,) n, g_d_k)         | x @ key_weights                                            |
///                 | value_weights            | (d_model, h_d_v)        |                                                            |
///                 | value                    | ((b,) n, h_d_v)         | x @ value_weights                                          |
///                 | mixed                    | ((b,) n, d_mixed)       | concat(query, key, value, axis=-1)                         |
///                 | past_conv_state          | ((b,) past, d_mixed)    |                                                            |
///                 | padded                   | ((b,) n_padded, d_mixed) | concat(past_conv_state, mixed, axis=-2)                   |
///                 | kernel                   | (d_mixed, one, width)   |                                                            |
///                 | convolved                | ((b,) n, d_mixed)       | padded[..., 0:2, :] * kernel[:, 0, 0] + padded[..., 1:3, :] * kernel[:, 0, 1] |
///                 | activated                | ((b,) n, d_mixed)       | convolved * sigmoid(convolved)                             |
///                 | conv_state               | ((b,) past, d_mixed)    | padded[..., 2:3, :]                                        |
///                 | beta_logits_weights      | (d_model, h)            |                                                            |
///                 | beta_logits              | ((b,) n, h)             | x @ beta_logits_weights                                    |
///                 | beta                     | ((b,) n, h)             | sigmoid(beta_logits)                                       |
///                 | decay_inputs_weights     | (d_model, h)            |                                                            |
///                 | decay_inputs             | ((b,) n, h)             | x @ decay_inputs_weights                                   |
///                 | dt_bias                  | (h,)                    |                                                            |
///                 | time_steps               | ((b,) n, h)             | log(1 + exp(decay_inputs + dt_bias))                       |
///                 | a_log                    | (h,)                    |                                                            |
///                 | log_decay                | ((b,) n, h)             | -exp(a_log) * time_steps                                   |
///                 | norm.gain                | (d_v,)                  |                                                            |
///                 | past_recurrent_state     | ((b,) h, d_k, d_v)      |                                                            |
///                 | head.0.raw_queries       | ((b,) n, d_k)           | activated[..., 0:3]                                        |
///                 | head.0.unit_queries      | ((b,) n, d_k)           | raw_queries / sqrt(sum(raw_queries ** 2, axis=-1, keepdims=True) + 1e-06) |
///                 | head.0.queries           | ((b,) n, d_k)           | unit_queries / sqrt(unit_queries.shape[-1])                |
///                 | head.0.raw_keys          | ((b,) n, d_k)           | activated[..., 3:6]                                        |
///                 | head.0.keys              | ((b,) n, d_k)           | raw_keys / sqrt(sum(raw_keys ** 2, axis=-1, keepdims=True) + 1e-06) |
///                 | head.0.values            | ((b,) n, d_v)           | activated[..., 6:8]                                        |
///                 | head.0.step.0.previous_state | ((b,) d_k, d_v)     | past_recurrent_state[..., 0, :, :]                         |
///                 | head.0.step.0.query      | ((b,) one, d_k)         | queries[..., 0:1, :]                                       |
///                 | head.0.step.0.key        | ((b,) one, d_k)         | keys[..., 0:1, :]                                          |
///                 | head.0.step.0.value      | ((b,) one, d_v)         | values[..., 0:1, :]                                        |
///                 | head.0.step.0.decayed    | ((b,) d_k, d_v)         | exp(log_decay[..., 0:1, 0:1]) * previous_state             |
///                 | head.0.step.0.recalled   | ((b,) one, d_v)         | key @ decayed                                              |
///                 | head.0.step.0.delta      | ((b,) one, d_v)         | beta[..., 0:1, 0:1] * (value - recalled)                   |
///                 | head.0.step.0.state      | ((b,) d_k, d_v)         | decayed + key.T @ delta                                    |
///                 | head.0.step.0.output     | ((b,) one, d_v)         | query @ state                                              |
///                 | head.0.step.1.previous_state | ((b,) d_k, d_v)     | = step.0.state                                             |
///                 | head.0.context           | ((b,) n, d_v)           | concat(step.0.output, step.1.output, axis=-2)              |
///                 | head.0.norm.x            | ((b,) n, d_v)           | = context                                                  |
///                 | merged                   | ((b,) n, h_d_v)         | concat(head.0.norm.output, axis=-1)                        |
///                 | gate_weights             | (d_model, h_d_v)        |                                                            |
///                 | gate                     | ((b,) n, h_d_v)         | x @ gate_weights                                           |
///                 | gated                    | ((b,) n, h_d_v)         | merged * gate * sigmoid(gate)                              |
///                 | output_weights           | (h_d_v, d_model)        |                                                            |
///                 | output                   | ((b,) n, d_model)       | gated @ output_weights                                     |
///                 | recurrent_state          | ((b,) h, d_k, d_v)      | concat(head.0.step.1.state[..., None, :, :], axis=-3)      |
///
///                 for two tokens, one head and filters of two tokens. Each token has its step; head.0.norm has the steps of
///                 rms_norm(). In chunks there are, in place of the scopes step.0, step.1, …, the scopes chunk.0, chunk.1, … of
///                 DeltaNetChunk, whose outputs `context` puts one after the other.
/// @throws ShapeError where x, the past and the weights disagree, there is no token, or heads do not divide them
/// @see Yang, Kautz and Hatamizadeh 2024, "Gated Delta Networks: Improving Mamba2 with Delta Rule", sections 3.1 and 3.4; Schlag,
///      Irie and Schmidhuber 2021 for the delta rule
template <Sequence T>
GatedDeltaNetOf<T> gated_delta_net(const T& x, const PastOfDeltaNet<Value<T>>& past,
                                   const GatedDeltaNetWeights& weights, const GatedDeltaNetOptions& options = {},
                                   const Trace& trace = {});

/// The same from the beginning.
template <Sequence T>
GatedDeltaNetOf<T> gated_delta_net(const T& x, const GatedDeltaNetWeights& weights,
                                   const GatedDeltaNetOptions& options = {}, const Trace& trace = {})
{
    return gated_delta_net(x, {}, weights, options, trace);
}
ATTN_REFUSE_OTHER_TENSORS(gated_delta_net);

/// Several tokens of a head at once, which give the same numbers as one after the other: products of matrices instead of many
/// small steps.
///
/// What a token writes depends on what those before it in the chunk have written: the rows of `deltas` solve a triangular system.
/// Its matrix does not depend on the state, so that the chunks' systems can be solved side by side, each row after the ones
/// above it: `inverse` is (I + overlaps)^-1. Only the last four steps follow the state from chunk to chunk. This is the WY form:
/// a product of as many matrices I - beta k^T k as there are tokens is I - keys^T @ write_keys.
///
/// The steps of chunk.0, here of two tokens:
///
/// | step           | shape           | formula                                                                    |
/// |----------------|-----------------|----------------------------------------------------------------------------|
/// | previous_state | ((b,) d_k, d_v) | past_recurrent_state[..., 0, :, :]                                         |
/// | queries        | ((b,) c, d_k)   | queries[..., 0:2, :]                                                       |
/// | keys           | ((b,) c, d_k)   | keys[..., 0:2, :]                                                          |
/// | values         | ((b,) c, d_v)   | values[..., 0:2, :]                                                        |
/// | betas          | ((b,) c, one)   | beta[..., 0:2, 0:1]                                                        |
/// | sums           | ((b,) c, one)   | (arange(2)[:, None] >= arange(2)) @ log_decay[..., 0:2, 0:1]               |
/// | decays         | ((b,) c, c)     | exp(where(arange(2)[:, None] >= arange(2), sums - sums.T, -inf))           |
/// | overlaps       | ((b,) c, c)     | where(arange(2)[:, None] > arange(2), betas * (keys @ keys.T) * decays, 0) |
/// | row.0.inverse  | ((b,) c, c)     | where(arange(2)[:, None] == arange(2), 1, 0 * overlaps)                    |
/// | row.1.above    | ((b,) c, c)     | = row.0.inverse                                                            |
/// | row.1.inverse  | ((b,) c, c)     | above - where(arange(2)[:, None] == 1, overlaps[..., 1:2, :] @ above, 0)   |
/// | inverse        | ((b,) c, c)     | = row.1.inverse                                                            |
/// | write_values   | ((b,) c, d_v)   | inverse @ (betas * values)                                                 |
/// | write_keys     | ((b,) c, d_k)   | inverse @ (betas * exp(sums) * keys)                                       |
/// | scores         | ((b,) c, c)     | queries @ keys.T                                                           |
/// | decayed_scores | ((b,) c, c)     | scores * decays                                                            |
/// | deltas         | ((b,) c, d_v)   | write_values - write_keys @ previous_state                                 |
/// | output         | ((b,) c, d_v)   | (exp(sums) * queries) @ previous_state + decayed_scores @ deltas           |
/// | kept           | ((b,) d_k, d_v) | exp(sums[..., 1:2, :]) * previous_state                                    |
/// | state          | ((b,) d_k, d_v) | kept + (exp(sums[..., 1:2, :] - sums) * keys).T @ deltas                   |
///
/// @see Yang, Kautz and Hatamizadeh 2024, section 3.3; Bischof and Van Loan 1985 for the WY form
template <Sequence T>
struct DeltaNetChunk {
    T output; ///< ((b,) c, d_v)
    T state;  ///< ((b,) d_k, d_v), after its last token
};

} // namespace attn
