#pragma once

#include "attn/reference/layers/multi_head.hpp"
#include "attn/reference/layers/position.hpp"

namespace attn {

/// How attention depends on positions.
enum class HeadPositions {
    none,   ///< not at all: positions, if any, were added to the tokens
    rotary, ///< queries and keys are rotated by their positions, see rotary()
    alibi   ///< scores fall with distance, for each head by a slope of its own, see alibi_bias()
};

/// Options of grouped_query_attention(), and of the self-attention of a layer.
struct GroupedQueryOptions {
    std::size_t heads = 1;
    std::optional<Causal> causal = {}; ///< no later keys; joined with the mask that is given
    std::optional<double> scale = {};  ///< what scores are multiplied by; 1/sqrt(d_k) unless given
    HeadPositions positions = HeadPositions::none;
    RotaryOptions rotary = {};
    std::optional<double> softcap = {}; ///< limits the scaled scores, see scaled_dot_product_attention()
    RmsNormOptions norm = {};           ///< of queries and keys, where the weights have such norms
};

/// How many key/value heads the weights have, each as wide as one of the query heads.
/// @throws ShapeError where the columns of the weights are no whole number of heads of one size
std::size_t key_value_heads(const MultiHeadWeights& weights, std::size_t heads);

/// Grouped-query self-attention: multi-head attention whose heads can share keys and values, with positions in the
/// heads.
///
/// Each of g key/value heads serves h / g consecutive query heads, so that a cache is h / g times smaller. The number g
/// follows from the weights: g = h is multi-head attention, g = 1 is multi-query attention.
///
/// @param x        ((b,) n, d_model)
/// @param mask     (n, m) or (b, n, m), true where a query can attend; (b, h, n, m) for each head; optional
/// @param bias     (n, m), (b, n, m) or (b, h, n, m), added to the scaled scores; optional
/// @param weights  the packed maps of all heads, those of keys and values with the columns of g heads
/// @param options  heads, causal or not, scale, positions
/// @param trace    | step                         | shape            | formula                            |
///                 |------------------------------|------------------|------------------------------------|
///                 | x                            | ((b,) n, d_model) |                                   |
///                 | query_weights                | (d_model, h_d_k) |                                    |
///                 | query                        | ((b,) n, h_d_k)  | x @ query_weights                  |
///                 | key_weights                  | (d_model, g_d_k) |                                    |
///                 | key                          | ((b,) m, g_d_k)  | x @ key_weights                    |
///                 | value_weights                | (d_model, g_d_v) |                                    |
///                 | value                        | ((b,) m, g_d_v)  | x @ value_weights                  |
///                 | head.0.rotary_query.x        | ((b,) n, d)      | query[..., 0:2]                    |
///                 | head.0.queries               | ((b,) n, d_k)    | = rotary_query.output              |
///                 | head.0.rotary_key.x          | ((b,) n, d)      | key[..., 0:2]                      |
///                 | head.0.keys                  | ((b,) m, d_k)    | = rotary_key.output                |
///                 | head.0.values                | ((b,) m, d_v)    | value[..., 0:4]                    |
///                 | merged                       | ((b,) n, h_d_v)  | concat(head.0.context, head.1.context, axis=-1) |
///                 | output_weights               | (h_d_v, d_model) |                                    |
///                 | output                       | ((b,) n, d_model) | merged @ output_weights           |
///
///                 for two heads of one group, with the steps of rotary() in the scopes rotary_query and rotary_key, and
///                 those of scaled_dot_product_attention() in each head, whose queries, keys and values are, without
///                 rotary positions, `query[..., 0:2]` and so on; with ALiBi each head has its `bias`. Where the weights
///                 have norms of queries and keys, the steps of rms_norm() come first, in each head's scopes query_norm
///                 and key_norm; their gains, which the heads share, are query_norm.gain and key_norm.gain. Biases of the maps, mask, bias and output map as in multi_head_attention(); with g = h so
///                 are the axes.
/// @throws ShapeError where x and the weights disagree, h or g does not divide their columns, g does not divide h, or
///                    the mask does not fit
/// @throws Error      where ALiBi is asked for and a bias is given, too: ALiBi is itself a bias
/// @see Ainslie et al. 2023; Shazeer 2019 for g = 1; Su et al. 2021; Press, Smith and Lewis 2022; Henry et al. 2020 for
///      norms of queries and keys
template <Sequence T>
MultiHeadOf<T> grouped_query_attention(const T& x, const std::optional<AnyMask>& mask,
                                       const std::optional<AnyBias>& bias, const MultiHeadWeights& weights,
                                       const GroupedQueryOptions& options = {}, const Trace& trace = {});

/// Cross-attention, with the input `memory` after `x`; see multi_head_attention().
/// @throws ShapeError, Error  as above
template <Sequence T>
MultiHeadOf<T> grouped_query_attention(const T& x, const T& memory, const std::optional<AnyMask>& mask,
                                       const std::optional<AnyBias>& bias, const MultiHeadWeights& weights,
                                       const GroupedQueryOptions& options = {}, const Trace& trace = {});

/// The general form: keys from one sequence, values from another of the same length; see multi_head_attention().
/// @throws ShapeError, Error  as above
template <Sequence T>
MultiHeadOf<T> grouped_query_attention(const T& x, const T& memory, const T& value_memory,
                                       const std::optional<AnyMask>& mask, const std::optional<AnyBias>& bias,
                                       const MultiHeadWeights& weights, const GroupedQueryOptions& options = {},
                                       const Trace& trace = {});
ATTN_REFUSE_OTHER_TENSORS(grouped_query_attention);

/// True where every head has keys and values of its own, no norms and no positions: where multi_head_attention() will do.
bool is_plain(const MultiHeadWeights& weights, HeadPositions positions);

/// The self-attention that a layer's options ask for: multi_head_attention() where every head has keys and values of its
/// own, no norms and no positions, else grouped_query_attention().
template <Sequence T>
MultiHeadOf<T> self_attention(const T& x, const MaskAndBias& mask, const MultiHeadWeights& weights,
                              const GroupedQueryOptions& options = {}, const Trace& trace = {});
ATTN_REFUSE_OTHER_TENSORS(self_attention);

} // namespace attn
