#pragma once

#include "attn/reference/layers/linear.hpp"
#include "attn/reference/layers/multi_head.hpp"
#include "attn/reference/layers/rms_norm.hpp"

#include <optional>
#include <type_traits>
#include <vector>

namespace attn {

/// A map to a latent, which has few features, and the norm of that latent.
struct LatentWeights {
    LinearWeights down;  ///< (d_model, d_c), or (d_model, d_c + d_r), where the last features are no part of the latent
    RmsNormWeights norm; ///< (d_c)
};

/// The learned parameters of multi-head latent attention. Each of h heads has queries and keys of d_k = d_n + d_r features, of
/// which the last d_r are rotated, and values of d_v features.
struct LatentAttentionWeights {
    LinearWeights query;     ///< (d_model, h d_k), or (d_q, h d_k), where queries have a latent, too
    LatentWeights latent;    ///< (d_model, d_c + d_r): the latent of keys and values, then the rotary key of all heads
    LinearWeights key_value; ///< (d_c, h (d_n + d_v)): of each head keys, then values
    LinearWeights output;    ///< (h d_v, d_model)
    std::optional<LatentWeights> query_latent = {}; ///< (d_model, d_q); without it queries are made of the tokens
};

/// What latent attention keeps of earlier tokens: d_c + d_r numbers for each, however many heads there are.
template <Sequence T>
struct LatentCacheOf {
    T latent;     ///< ((b,) m, d_c), after its norm
    T shared_key; ///< ((b,) m, d_r), rotated where positions are rotary
};
using LatentCache = LatentCacheOf<Matrix>;

/// The cache of earlier tokens; none at the beginning.
template <Sequence T>
using PastLatents = std::optional<std::type_identity_t<LatentCacheOf<T>>>;

/// The results of cached_latent_attention().
template <Sequence T>
struct CachedLatentAttentionOf {
    T output;                      ///< ((b,) n, d_model)
    std::vector<T> weights;        ///< of each head, ((b,) n, m)
    LatentCacheOf<Value<T>> cache; ///< of all m tokens, the n new ones among them
};

/// Multi-head latent attention, as DeepSeek-V2 and V3 have it: the keys and values of all heads are made from one small latent
/// of each token, and one small rotary key, which all heads share.
///
/// A cache keeps latent and rotary key only, d_c + d_r numbers for each token instead of h (d_k + d_v). Positions are in the
/// rotary key alone: a rotation between the latent and a head's keys would stand in the way of
/// absorbed_latent_attention().
///
/// @param x        ((b,) n, d_model)
/// @param weights  maps and norms
/// @param options  those of multi_head_attention(); `norm` is that of the latents; DeepSeek has rotary positions, an epsilon of
///                 1e-6, and a scale of 1/sqrt(d_k), which DeepSeek-V3 multiplies by mscale^2, see
///                 latent_attention_scale()
/// @param trace    | step                  | shape               | formula                                            |
///                 |-----------------------|---------------------|----------------------------------------------------|
///                 | x                     | ((b,) n, d_model)   |                                                    |
///                 | query_weights         | (d_model, h_d_k)    |                                                    |
///                 | query                 | ((b,) n, h_d_k)     | x @ query_weights                                  |
///                 | compressed_weights    | (d_model, d_c_r)    |                                                    |
///                 | compressed            | ((b,) m, d_c_r)     | x @ compressed_weights                             |
///                 | latent_norm.x         | ((b,) n, d_model)   | compressed[..., 0:3]                               |
///                 | latent                | ((b,) m, d_c)       | = latent_norm.output                               |
///                 | rotary_key.x          | ((b,) n, d)         | compressed[..., 3:5]                               |
///                 | shared_key            | ((b,) m, d_r)       | = rotary_key.output                                |
///                 | key_value_weights     | (d_c, h_d_n_v)      |                                                    |
///                 | key_value             | ((b,) m, h_d_n_v)   | latent @ key_value_weights                         |
///                 | head.0.rotary_query.x | ((b,) n, d)         | query[..., 4:6]                                    |
///                 | head.0.queries        | ((b,) n, d_k)       | concat(query[..., 0:4], rotary_query.output, axis=-1) |
///                 | head.0.keys           | ((b,) m, d_k)       | concat(key_value[..., 0:4], shared_key, axis=-1)   |
///                 | head.0.values         | ((b,) m, d_v)       | key_value[..., 4:7]                                |
///                 | head.0.scores         | ((b,) n, m)         | queries @ keys.T                                   |
///                 | head.0.scaled         | ((b,) n, m)         | scores / sqrt(keys.shape[-1])                      |
///                 | head.0.weights        | ((b,) n, m)         | softmax(scaled)                                    |
///                 | head.0.context        | ((b,) n, d_v)       | weights @ values                                   |
///                 | merged                | ((b,) n, h_d_v)     | concat(head.0.context, axis=-1)                    |
///                 | output_weights        | (h_d_v, d_model)    |                                                    |
///                 | output                | ((b,) n, d_model)   | merged @ output_weights                            |
///
///                 with as many heads as asked for, the steps of rms_norm() in the scope latent_norm, and those of rotary() in
///                 rotary_key and in each head's rotary_query. Queries that have a latent are made by
///                 `query_latent_weights`, `query_latent`, which is `x @ query_latent_weights`, the norm in the scope
///                 query_norm, and `query`, which is `query_norm.output @ query_weights`. Without rotary positions,
///                 `shared_key` is `compressed[..., 3:5]` and `head.0.queries` is `query[..., 0:6]`. Biases of the maps, mask,
///                 bias and ALiBi are as in multi_head_attention().
/// @throws ShapeError where x, weights and mask disagree, or the columns of the weights do not make h heads
/// @throws Error      where ALiBi is asked for and a bias is given, too: ALiBi is itself a bias
/// @see DeepSeek-AI 2024, "DeepSeek-V2", sections 2.1.2 and 2.1.3
template <Sequence T>
MultiHeadOf<T> latent_attention(const T& x, const LatentAttentionWeights& weights, const MultiHeadOptions& options = {},
                                const Trace& trace = {});
ATTN_REFUSE_OTHER_TENSORS(latent_attention);

/// The same numbers with less work where many tokens are in a cache: neither keys nor values are made from the latents.
///
/// A score is q^T (W^UK c) = (W^UK^T q)^T c: a head's map to keys is absorbed into its queries, and its map to values is applied
/// to the context, after the sum over tokens. So all heads attend to the same latents, as in multi-query attention, with wider
/// queries. The scale is the one of d_k all the same, not of the d_c + d_r features that are multiplied now.
///
/// @param x        ((b,) n, d_model)
/// @param weights  maps and norms; the map to keys and values has no bias
/// @param options  as of latent_attention()
/// @param trace    the steps of latent_attention() up to `shared_key`, then
///
///                 | step                  | shape               | formula                                            |
///                 |-----------------------|---------------------|----------------------------------------------------|
///                 | latent_keys           | ((b,) m, d_c_r)     | concat(latent, shared_key, axis=-1)                |
///                 | key_value_weights     | (d_c, h_d_n_v)      |                                                    |
///                 | head.0.rotary_query.x | ((b,) n, d)         | query[..., 4:6]                                    |
///                 | head.0.key_weights    | (d_c, d_n)          | key_value_weights[..., 0:4]                        |
///                 | head.0.absorbed       | ((b,) n, d_c)       | query[..., 0:4] @ key_weights.T                    |
///                 | head.0.queries        | ((b,) n, d_c_r)     | concat(absorbed, rotary_query.output, axis=-1)     |
///                 | head.0.keys           | ((b,) m, d_c_r)     | = latent_keys                                      |
///                 | head.0.values         | ((b,) m, d_c)       | = latent                                           |
///                 | head.0.scores         | ((b,) n, m)         | queries @ keys.T                                   |
///                 | head.0.scaled         | ((b,) n, m)         | scores * 0.4082482904638631                        |
///                 | head.0.weights        | ((b,) n, m)         | softmax(scaled)                                    |
///                 | head.0.context        | ((b,) n, d_v)       | weights @ values                                   |
///                 | head.0.value_weights  | (d_c, d_v)          | key_value_weights[..., 4:7]                        |
///                 | head.0.mapped         | ((b,) n, d_v)       | context @ value_weights                            |
///                 | merged                | ((b,) n, h_d_v)     | concat(head.0.mapped, axis=-1)                     |
///                 | output_weights        | (h_d_v, d_model)    |                                                    |
///                 | output                | ((b,) n, d_model)   | merged @ output_weights                            |
///
///                 The d_v of the context is d_c here, since the values are the latents.
/// @throws ShapeError as latent_attention()
/// @throws Error      as latent_attention(), and where the map to keys and values has a bias, which can't be absorbed
/// @see DeepSeek-AI 2024, "DeepSeek-V2", section 2.1.2, after equation 19
template <Sequence T>
MultiHeadOf<T> absorbed_latent_attention(const T& x, const LatentAttentionWeights& weights,
                                         const MultiHeadOptions& options = {}, const Trace& trace = {});
ATTN_REFUSE_OTHER_TENSORS(absorbed_latent_attention);

/// Latent attention of n tokens that follow those in a cache: latents and rotary keys are computed for the new tokens only.
///
/// With a causal mask the output is the one that latent_attention() gives for those tokens of the whole sequence.
///
/// @param x        ((b,) n, d_model): the new tokens
/// @param past     of the tokens before them; none at the beginning
/// @param weights  maps and norms
/// @param options  as of latent_attention(), m the tokens before and the new ones; rotary positions go on where the cache ends
/// @param trace    the steps of latent_attention(), with these in place of `latent` and `shared_key`, which are the cache of
///                 all m tokens:
///
///                 | step            | shape            | formula                                     |
///                 |-----------------|------------------|---------------------------------------------|
///                 | past_latent     | ((b,) past, d_c) |                                             |
///                 | past_shared_key | ((b,) past, d_r) |                                             |
///                 | new_latent      | ((b,) n, d_c)    | = latent_norm.output                        |
///                 | latent          | ((b,) m, d_c)    | concat(past_latent, new_latent, axis=0)     |
///                 | new_shared_key  | ((b,) n, d_r)    | = rotary_key.output                         |
///                 | shared_key      | ((b,) m, d_r)    | concat(past_shared_key, new_shared_key, axis=0) |
///
///                 Without a past they are those of latent_attention().
/// @throws ShapeError, Error  as latent_attention(), and where the past does not fit the weights
template <Sequence T>
CachedLatentAttentionOf<T> cached_latent_attention(const T& x, const PastLatents<Value<T>>& past,
                                                   const LatentAttentionWeights& weights,
                                                   const MultiHeadOptions& options = {}, const Trace& trace = {});
ATTN_REFUSE_OTHER_TENSORS(cached_latent_attention);

/// The same with absorbed maps: no key and no value is made of the latents in the cache.
///
/// @param x, past, weights, options  as of cached_latent_attention(); the map to keys and values has no bias
/// @param trace    the steps of absorbed_latent_attention(), with those of cached_latent_attention() in place of `latent` and
///                 `shared_key`
/// @throws ShapeError, Error  as absorbed_latent_attention(), and where the past does not fit the weights
template <Sequence T>
CachedLatentAttentionOf<T>
cached_absorbed_latent_attention(const T& x, const PastLatents<Value<T>>& past, const LatentAttentionWeights& weights,
                                 const MultiHeadOptions& options = {}, const Trace& trace = {});
ATTN_REFUSE_OTHER_TENSORS(cached_absorbed_latent_attention);

/// The scale of DeepSeek's latent attention where rotary positions have a YaRN scaling: mscale^2 / sqrt(d_k), where mscale is
/// 0.1 `mscale_all_dim` ln(factor) + 1; nothing, which is 1/sqrt(d_k), with another scaling or without `mscale_all_dim`.
///
/// It makes softmax a little sharper in the long texts that the scaling is for. YaRN's own attention factor is about the rotated
/// features only, and is 1 where `mscale` and `mscale_all_dim` are the same.
/// @param d_k  features of a query of one head, d_n + d_r
/// @see Peng et al. 2023, "YaRN", section 3.4
std::optional<double> latent_attention_scale(const RotaryScaling& scaling, std::size_t d_k);

} // namespace attn
