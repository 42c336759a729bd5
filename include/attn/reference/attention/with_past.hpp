#pragma once

#include "attn/reference/attention/dot_product.hpp"

namespace attn {

/// Keys and values of earlier tokens, as a cache keeps them: ((b,) past, d_k) and ((b,) past, d_v), of the heads of a
/// batch (b, g, past, d_k) and (b, g, past, d_v).
template <Attending T>
struct PastOf {
    T keys;
    T values;
};

/// Scaled dot-product attention of queries, keys and values that were projected already, with several heads, key/value
/// heads that several query heads share, and keys and values of the past.
///
/// It is PyTorch's F.scaled_dot_product_attention and ONNX's operator Attention. Each of g key/value heads serves h / g
/// consecutive query heads; the keys and values of the past come before the new ones.
///
/// @param queries  ((b,) n, d_k) or (b, h, n, d_k)
/// @param keys     ((b,) m, d_k) or (b, g, m, d_k)
/// @param values   ((b,) m, d_v) or (b, g, m, d_v)
/// @param past     keys and values of earlier tokens; optional
/// @param options  as of scaled_dot_product_attention(), m the keys of the past and the new ones
/// @param trace    | step         | shape             | formula                                  |
///                 |--------------|-------------------|------------------------------------------|
///                 | queries      | (b, h, n, d_k)    |                                          |
///                 | new_keys     | (b, g, new, d_k)  |                                          |
///                 | past_keys    | (b, g, past, d_k) |                                          |
///                 | group_keys   | (b, g, m, d_k)    | concat(past_keys, new_keys, axis=2)      |
///                 | keys         | (b, h, m, d_k)    | repeat(group_keys, 2, axis=1)            |
///                 | new_values   | (b, g, new, d_v)  |                                          |
///                 | past_values  | (b, g, past, d_v) |                                          |
///                 | group_values | (b, g, m, d_v)    | concat(past_values, new_values, axis=2)  |
///                 | values       | (b, h, m, d_v)    | repeat(group_values, 2, axis=1)          |
///
///                 and the steps of scaled_dot_product_attention(), here of two query heads for each key/value head.
///                 Without a past, `group_keys` is what is given; where no head is shared, `keys` is.
/// @throws ShapeError where g does not divide h, or tensors disagree
/// @see Ainslie et al. 2023 for shared heads
template <Attending T>
AttentionOf<T> attention_with_past(const T& queries, const T& keys, const T& values,
                                   const std::optional<PastOf<T>>& past = {}, const AttentionOptions& options = {},
                                   const Trace& trace = {});
ATTN_REFUSE_OTHER_TENSORS(attention_with_past);

/// The numbers of heads that lie side by side.
struct PackedCounts {
    std::size_t heads;           ///< h, of the queries
    std::size_t key_value_heads; ///< g, of keys and values
};

/// The same for heads that lie side by side, as linear maps return them.
///
/// @param query    ((b,) n, h d_k)
/// @param key      ((b,) m, g d_k)
/// @param value    ((b,) m, g d_v)
/// @param counts   h and g
/// @param past     (b, g, past, d_k) and (b, g, past, d_v); b is 1 for a single sequence; optional
/// @param options  as of scaled_dot_product_attention(), mask and bias (n, m) or (b, h, n, m)
/// @param trace    | step    | shape             | formula                                              |
///                 |---------|-------------------|------------------------------------------------------|
///                 | query   | ((b,) n, h_d_k)   |                                                      |
///                 | key     | ((b,) m, g_d_k)   |                                                      |
///                 | value   | ((b,) m, g_d_v)   |                                                      |
///                 | queries | (b, h, n, d_k)    | permute(reshape(query, 1, 3, 2, 4), 0, 2, 1, 3)      |
///                 | keys    | (b, h, m, d_k)    | permute(reshape(key, 1, 3, 2, 4), 0, 2, 1, 3)        |
///                 | values  | (b, h, m, d_v)    | permute(reshape(value, 1, 3, 2, 5), 0, 2, 1, 3)      |
///                 | scores  | (b, h, n, m)      | queries @ keys.T                                     |
///                 | scaled  | (b, h, n, m)      | scores / sqrt(keys.shape[-1])                        |
///                 | weights | (b, h, n, m)      | softmax(scaled)                                      |
///                 | context | (b, h, n, d_v)    | weights @ values                                     |
///                 | output  | ((b,) n, h_d_v)   | reshape(permute(context, 0, 2, 1, 3), 3, 10)         |
///
///                 here of three tokens in two heads; what is split is called `new_keys` or `group_keys` where
///                 attention_with_past() gives it that name
/// @return ((b,) n, h d_v)
/// @throws ShapeError where heads do not divide their features, or as attention_with_past()
template <Sequence T>
T packed_attention(const T& query, const T& key, const T& value, const PackedCounts& counts,
                   const std::optional<PastOf<Tensor4>>& past = {}, const AttentionOptions& options = {},
                   const Trace& trace = {});
ATTN_REFUSE_OTHER_TENSORS(packed_attention);

} // namespace attn
