#pragma once

#include "attn/reference/layers/feed_forward.hpp"
#include "attn/reference/layers/multi_head.hpp"
#include "attn/reference/layers/norm.hpp"

#include <concepts>
#include <cstddef>
#include <optional>
#include <string_view>
#include <type_traits>

namespace attn {

/// Which token stands for all of them.
enum class PooledToken {
    first,      ///< BERT, ViT
    last,       ///< which can be padding: SigLIP's text
    of_id,      ///< the first one of a certain id, that of the end of a text: CLIP
    highest_id, ///< the first one of the highest id: CLIP's first releases
    query       ///< none of them: a learned query that attends to all, SigLIP's image
};

/// Its name as a trace has it: "first", "last", "of-id", "highest-id", "query".
std::string_view name_of(PooledToken token);

/// How one row is made of all tokens.
struct PoolerDescription {
    PooledToken token = PooledToken::first;
    std::size_t id = 0;                         ///< of the token, where that chooses it
    std::size_t heads = 1;                      ///< of the attention of a learned query
    NormDescription norm = {};                  ///< where the weights have one
    Activation activation = default_activation; ///< of the network, where the weights have one
    bool has_tanh = false;                      ///< in the end
};

/// The learned parameters of a pooler: those that it has.
struct PoolerWeights {
    std::optional<Vector> query = {};               ///< (d_model): what attends to all tokens; SigLIP's probe
    std::optional<MultiHeadWeights> attention = {}; ///< of that query
    std::optional<LayerNormWeights> norm = {};      ///< (d_model): of the row, or before the network
    std::optional<FeedForwardWeights> feed_forward = {};
    std::optional<LinearWeights> map = {}; ///< (d_model, d_pooled)
};

/// The ids of tokens, ((b,) n).
template <Sequence T>
using IdsOf = std::conditional_t<std::same_as<Value<T>, Matrix>, Integers, IntegerMatrix>;

/// What a pooler can take besides tokens.
template <Sequence T>
struct PoolerInputs {
    const IdsOf<T>* ids = nullptr; ///< of the tokens, where an id chooses one
    OptionalMask mask = {};        ///< (1, n) or (b, 1, n), true where a learned query can attend
};

/// One row for all tokens: one of them, or what a learned query that attends to all of them gets; then a norm or a network, a linear map,
/// and tanh, as far as there are weights for these.
///
/// @param tokens       ((b,) n, d_model), after the last layer
/// @param weights      of what the row goes through
/// @param description  which token, and what the weights do not say
/// @param inputs       ids, mask
/// @param trace        of the first token with a map and tanh, as in BERT,
///
///                     | step           | shape                | formula                          |
///                     |----------------|----------------------|----------------------------------|
///                     | x              | ((b,) n, d_model)    |                                  |
///                     | first          | ((b,) one, d_model)  | x[..., 0:1, :]                   |
///                     | hidden_weights | (d_model, d_pooled)  |                                  |
///                     | hidden_bias    | (d_pooled,)          |                                  |
///                     | hidden         | ((b,) one, d_pooled) | first @ hidden_weights + hidden_bias |
///                     | pooled         | ((b,) one, d_pooled) | tanh(hidden)                     |
///
///                     where `pooled` without tanh is another name of the step before. In place of `first`, `last` is
///                     `x[..., 7:8, :]` of eight tokens. By an id `ends` is `1 * (ids == 49407)`, or
///                     `1 * (ids == max(ids, axis=-1, keepdims=True))` of the highest; `chosen` is 1 for the first of these,
///                     `ends * (ends @ (arange(N)[:, None] <= arange(N)) == 1)`, and `end` is `chosen[None] @ x`. A learned
///                     `query`, (d_model), is the `x` of the steps of multi_head_attention() in the scope attention, whose
///                     `memory` are the tokens. A norm is in the scope norm; a network in feed_forward takes its output, and
///                     `residual` is what was there before the norm plus the network's.
/// @return ((b,) 1, d_pooled)
/// @throws ShapeError where tokens, ids and weights disagree
/// @throws Error      where an id chooses the token, and there are no ids or a sequence has none of that id; where a query is
///                    described, and the weights have none, or one where none is
/// @see Devlin et al. 2019, "BERT"; Radford et al. 2021, "Learning Transferable Visual Models From Natural Language
///      Supervision", sections 2.4 and 3.1.2; Zhai et al. 2022, "Scaling Vision Transformers", section 3.2, for the learned query
template <Sequence T>
T pool(const T& tokens, const PoolerWeights& weights, const PoolerDescription& description,
       const PoolerInputs<T>& inputs = {}, const Trace& trace = {});
ATTN_REFUSE_OTHER_TENSORS(pool);

} // namespace attn
