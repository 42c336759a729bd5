#pragma once

#include "attn/reference/layers/cache.hpp"
#include "attn/reference/layers/gated_feed_forward.hpp"
#include "attn/reference/layers/rms_norm.hpp"

#include <vector>

namespace attn {

/// The learned parameters of one layer of a decoder like Llama's. In Llama itself the maps have no bias; in Qwen2 those
/// of queries, keys and values have one; Qwen3 has norms of queries and keys.
struct LlamaLayerWeights {
    RmsNormWeights norm1; ///< before attention; Hugging Face's `input_layernorm`
    MultiHeadWeights self_attention;
    RmsNormWeights norm2; ///< before the network; Hugging Face's `post_attention_layernorm`
    GatedFeedForwardWeights feed_forward;
};

/// The learned parameters of a decoder like Llama's.
struct LlamaWeights {
    Matrix embedding; ///< (vocabulary, d_model): a row per token
    std::vector<LlamaLayerWeights> layers = {};
    RmsNormWeights norm = {};          ///< after the last layer
    std::optional<Matrix> output = {}; ///< (d_model, vocabulary); tied unless given: the embedding, transposed
};

/// Options of llama(). How many heads share keys and values follows from the weights.
struct LlamaOptions {
    std::size_t heads = 1;
    OptionalMask mask =
        {}; ///< (n, n) or (b, n, n), true where a token can attend; a whole decoder joins it with a causal one
    RotaryOptions rotary = {};
    RmsNormOptions norm = {};
};

/// The keys and values of the tokens so far, per layer; empty at the beginning.
struct LlamaCache {
    std::vector<KeyValueCache> layers;

    /// How many tokens are kept.
    std::size_t length() const { return layers.empty() ? 0 : layers.front().keys.shape(0); }
};

/// The results of llama() with a cache.
struct LlamaStep {
    Matrix logits; ///< (n, vocabulary), of the new tokens
    LlamaCache cache;
};

/// One layer: root mean square norm, self-attention, residual, then norm, gated network, residual.
///
/// @param x        ((b,) n, d_model)
/// @param weights  of both blocks and both norms
/// @param options  heads, mask: causal_mask() in a decoder; rotary positions, epsilon
/// @param trace    in the scopes norm1, self_attn, norm2 and feed_forward, the steps of rms_norm(),
///                 multi_head_attention() and gated_feed_forward(), and in its own:
///
///                 | step           | shape        | formula                         |
///                 |----------------|--------------|---------------------------------|
///                 | x              | ((b,) n, d_model) |                                 |
///                 | norm1.x        | ((b,) n, d_model) | = x                             |
///                 | self_attn.x    | ((b,) n, d_model) | = norm1.output                  |
///                 | residual1      | ((b,) n, d_model) | x + self_attn.output            |
///                 | norm2.x        | ((b,) n, d_model) | = residual1                     |
///                 | feed_forward.x | ((b,) n, d_model) | = norm2.output                  |
///                 | output         | ((b,) n, d_model) | residual1 + feed_forward.output |
///
///                 where = names a step again; the mask, unless a scope around has named it, follows `x`
/// @return ((b,) n, d_model)
/// @throws ShapeError where x, the weights and the mask disagree
/// @see Touvron et al. 2023, "LLaMA", section 2.2
template <Sequence T>
T llama_layer(const T& x, const LlamaLayerWeights& weights, const LlamaOptions& options = {}, const Trace& trace = {});
ATTN_REFUSE_OTHER_TENSORS(llama_layer);

/// A decoder like Llama's, as most decoders since 2023: for every token, the logits of the one after it.
///
/// @param ids      (n): rows of the embedding, the first token at position 0
/// @param weights  of the embedding, each layer, the last norm and the output
/// @param options  heads, rotary positions, epsilon; the same for each layer
/// @param trace    in the scopes layers.0, layers.1, … the steps of llama_layer(), in norm those of rms_norm(), and
///
///                 | step       | shape                 | formula                             |
///                 |------------|-----------------------|-------------------------------------|
///                 | ids        | (n,)                  |                                     |
///                 | embedding  | (vocabulary, d_model) |                                     |
///                 | embedded   | (n, d_model)          | embedding[ids]                      |
///                 | causal     | (n, m)                | arange(N) <= arange(N)[:, None]     |
///                 | mask       | (n, m)                | = causal                            |
///                 | layers.0.x | (n, d_model)          | = embedded                          |
///                 | layers.1.x | (n, d_model)          | = layers.0.output                   |
///                 | norm.x     | (n, d_model)          | = layers.1.output                   |
///                 | logits     | (n, vocabulary)       | norm.output @ embedding.T           |
///
///                 with the number in place of N; with an output map of its own, `output_weights`
///                 (d_model, vocabulary) comes before `logits`, which is `norm.output @ output_weights`
/// @return the logits, (n, vocabulary): row i scores what can follow token i
/// @throws ShapeError where an id is no row of the embedding, or weights disagree
/// @see Touvron et al. 2023, "LLaMA", section 2.2
Matrix llama(const Integers& ids, const LlamaWeights& weights, const LlamaOptions& options = {},
             const Trace& trace = {});

/// The same for a batch, (b, n): each step has the axis b in front.
/// @param lengths  (b): how many ids of each sequence are real, what follows is padding; optional
/// @return the logits, (b, n, vocabulary)
Tensor3 llama(const IntegerMatrix& ids, const std::optional<Integers>& lengths, const LlamaWeights& weights,
              const LlamaOptions& options = {}, const Trace& trace = {});

/// The same for tokens that follow those in a cache.
///
/// @param ids      (n): the new tokens
/// @param past     the cache of the tokens before them; an empty one at the beginning
/// @param weights  of the embedding, each layer, the last norm and the output
/// @param options  heads, rotary positions, epsilon; the same for each layer
/// @param trace    as above, with the steps of cached_self_attention() in the layers, and `causal` and `mask` of the
///                 new tokens by all tokens
/// @return the logits of the new tokens, which are those of all tokens at once, except where a DynamicScaling or a
///         LongRopeScaling goes beyond its original length; and the cache with the new ones in it
/// @throws ShapeError where an id is no row of the embedding, or the past or weights disagree
LlamaStep llama(const Integers& ids, const LlamaCache& past, const LlamaWeights& weights,
                const LlamaOptions& options = {}, const Trace& trace = {});

} // namespace attn
