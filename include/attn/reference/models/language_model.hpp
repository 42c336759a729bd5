#pragma once

#include "attn/reference/layers/block.hpp"

#include <optional>
#include <vector>

namespace attn {

/// A decoder as models have it: its layers, and what stands before and after them.
struct LanguageModelDescription {
    std::vector<BlockDescription> layers = {};
    NormDescription norm = {};      ///< after the embedding, and after the last layer
    std::size_t first_position = 0; ///< the row of the position table for the first token; 2 in OPT
    std::optional<double> embedding_scale =
        {};                                   ///< what a row of the embedding is multiplied by; sqrt(d_model) in Gemma
    std::optional<double> logit_scale = {};   ///< what logits are multiplied by
    std::optional<double> logit_softcap = {}; ///< then C tanh(logits / C)
};

/// The learned parameters of a decoder.
struct LanguageModelWeights {
    Matrix embedding;                     ///< (vocabulary, d_model)
    std::optional<Matrix> positions = {}; ///< (n_max, d_model): learned positions
    std::optional<LayerNormWeights> embedding_norm = {};
    std::vector<BlockWeights> layers = {};
    std::optional<LayerNormWeights> norm = {}; ///< after the last layer
    std::optional<LinearWeights> output = {};  ///< (d_model, vocabulary); tied unless given
};

/// The keys and values of the tokens so far, per layer; empty at the beginning.
template <Sequence T>
using LanguageModelCache = std::vector<KeyValueCacheOf<T>>;

/// The results of language_model() with a cache.
template <Sequence T>
struct LanguageModelStep {
    T logits; ///< ((b,) n, vocabulary), of the new tokens
    LanguageModelCache<T> cache;
};

/// A decoder that is described, such as GPT-2, Llama or Gemma: for every token, the logits of the one after it.
///
/// @param ids          (n): rows of the embedding
/// @param weights      of embedding, layers, norms and output
/// @param description  of each layer, and of what stands before and after them
/// @param trace        in the scopes layers.0, layers.1, … the steps of decoder_block(), in norm those of norm(), and
///
///                     | step             | shape                 | formula                         |
///                     |------------------|-----------------------|---------------------------------|
///                     | ids              | (n,)                  |                                 |
///                     | embedding        | (vocabulary, d_model) |                                 |
///                     | embedded         | (n, d_model)          | embedding[ids]                  |
///                     | causal           | (n, m)                | arange(N) <= arange(N)[:, None] |
///                     | mask             | (n, m)                | = causal                        |
///                     | layers.0.x       | (n, d_model)          | = embedded                      |
///                     | norm.x           | (n, d_model)          | = layers.0.output               |
///                     | logits           | (n, vocabulary)       | norm.output @ embedding.T       |
///
///                     With a scale or learned positions, `tokens` is `embedding[ids]` and `embedded` the sum, such as
///                     `4 * tokens + position_embedding.positions`; with a norm after the embedding, the first layer takes
///                     `embedding_norm.output`. Layers with a window have their mask from the scope window.0 (of the first
///                     width, window.1 of another). With an output map, a bias, a scale or a softcap, `products` comes
///                     before `logits`.
/// @return the logits, (n, vocabulary)
/// @throws ShapeError where an id is no row of the embedding, or weights disagree
/// @throws Error      where there are not as many descriptions as layers, or as decoder_block()
Matrix language_model(const Integers& ids, const LanguageModelWeights& weights,
                      const LanguageModelDescription& description, const Trace& trace = {});

/// The same for a batch, (b, n): each step has the axis b in front.
/// @param lengths  (b): how many ids of each sequence are real, what follows is padding; optional
/// @return the logits, (b, n, vocabulary)
Tensor3 language_model(const IntegerMatrix& ids, const std::optional<Integers>& lengths,
                       const LanguageModelWeights& weights, const LanguageModelDescription& description,
                       const Trace& trace = {});

/// The same for tokens that follow those in a cache.
/// @param past  the cache of the tokens before them; an empty one at the beginning
/// @return the logits of the new tokens, which are those of all tokens at once, and the cache with the new ones in it
LanguageModelStep<Matrix> language_model(const Integers& ids, const LanguageModelCache<Matrix>& past,
                                         const LanguageModelWeights& weights,
                                         const LanguageModelDescription& description, const Trace& trace = {});

} // namespace attn
