#pragma once

#include "attn/reference/layers/block.hpp"
#include "attn/reference/layers/convolution.hpp"
#include "attn/reference/layers/patches.hpp"
#include "attn/reference/layers/pooler.hpp"
#include "attn/reference/layers/position.hpp"

#include <optional>
#include <variant>
#include <vector>

namespace attn {

/// How large an image is, in pixels.
struct ImageSize {
    std::size_t height = 0, width = 0;
};

/// Hidden tokens of a masked language model as those that dropout took: their rows are 0, and all are scaled as if they were as many as
/// in training.
struct TokenDropout {
    std::size_t id = 0;        ///< of a hidden token
    double share = 0.15 * 0.8; ///< of tokens that were hidden in training, as in ESM
};

/// A decoder, or an encoder, as models have it: its layers, and what stands before and after them.
struct LanguageModelDescription {
    std::vector<BlockDescription> layers = {};
    NormDescription norm = {};           ///< after the embedding, and after the last layer
    std::optional<ImageSize> image = {}; ///< where tokens are made of an image
    /// How many rows and columns of patches an image has, where the table of positions is resized to them.
    std::optional<ImageSize> position_grid = {};
    std::vector<ConvolutionOptions> convolutions = {};      ///< where they are made of sound
    Activation convolution_activation = default_activation; ///< after each of these
    bool is_causal = true;       ///< false in an encoder, whose tokens attend to later ones, too
    bool has_logits = true;      ///< false where the tokens after the last layer are the result
    std::size_t first_layer = 0; ///< the number of the first of these layers, which are a part of a model, in its scope
    std::size_t first_position = 0; ///< the row of the position table for the first token; 2 in OPT
    /// The id of padding where positions count the other tokens only, from the next row on, and padding has the row of
    /// its id: 1 in RoBERTa.
    std::optional<std::size_t> padding_id = {};
    std::optional<TokenDropout> token_dropout = {};
    std::optional<double> embedding_scale =
        {}; ///< what a row of the embedding is multiplied by; sqrt(d_model) in Gemma
    Activation head_activation = default_activation; ///< of the head before the logits, where the weights have one
    std::optional<double> logit_scale = {};          ///< what logits are multiplied by
    std::optional<double> logit_softcap = {};        ///< then C tanh(logits / C)
    DistanceBuckets distance_buckets = {}; ///< of the tables of biases by distance, where the weights have some
    /// Of how many last tokens the logits are, where no others are asked for; of all without it.
    std::optional<std::size_t> logits_to_keep = {};
    /// Without logits, how one row is made of all tokens, where one is.
    std::optional<PoolerDescription> pooler = {};
};

/// The head of a masked language model, before its logits: norm(activation(x W + b)).
struct PredictionHeadWeights {
    LinearWeights map; ///< (d_model, d_model), or to the width of the embedding
    LayerNormWeights norm;
};

/// What makes tokens of the input: a table of words (vocabulary, d_model), patches of an image, a map of patches that are cut already
/// (d_patch, d_model), or convolutions along a sound; nothing in a part of a model that takes tokens.
using InputWeights = std::variant<Matrix, PatchWeights, LinearWeights, std::vector<ConvolutionWeights>, std::monostate>;

/// The learned parameters of a decoder or an encoder.
struct LanguageModelWeights {
    InputWeights embedding;
    std::optional<Matrix> positions = {};   ///< (n_max, d_model): learned positions
    std::optional<Matrix> token_types = {}; ///< (types, d_model): added by the type of a token, as in BERT
    std::optional<LayerNormWeights> embedding_norm = {};
    std::optional<LinearWeights> embedding_map = {}; ///< (d_embedding, d_model), after that norm: ALBERT, ELECTRA
    std::vector<BlockWeights> layers = {};
    std::optional<LayerNormWeights> norm = {}; ///< after the last layer
    std::optional<PredictionHeadWeights> prediction_head = {};
    std::optional<Matrix> output = {};      ///< (d_model, vocabulary); tied unless given
    std::optional<Vector> output_bias = {}; ///< (vocabulary)
    PoolerWeights pooler = {};              ///< of a model without logits, where one is described
    /// (d_embedding, d_model), of words alone, before positions are added: OPT; and (d_model, d_embedding), after the last norm.
    std::optional<LinearWeights> word_map = {}, output_map = {};
    /// (buckets, h): a bias by distance that all layers share, see bucket_bias().
    std::optional<Matrix> distance_bias = {};
};

/// Which tokens of the sequences of a batch are real: all, the first (b) of each, or those where a mask (b, n) is true.
using Padding = std::variant<std::monostate, Integers, Mask>;

/// What a model can take besides ids, either Integers or IntegerMatrix.
template <class Ids>
struct LanguageModelOptions {
    std::optional<Ids> token_types = {}; ///< ((b,) n): the type of each token, a row of the table; all 0 unless given
    /// ((b,) m, d_memory): what an encoder gives, to which the tokens of a decoder with cross-attention attend.
    std::optional<std::conditional_t<std::same_as<Ids, Integers>, Matrix, Tensor3>> memory = {};
    Padding memory_padding = {};       ///< which of its tokens are real
    const Matrix* embedding = nullptr; ///< the table of words, where it is an encoder's, too
    /// (axes, n): where tokens stand, of a model that rotates along several axes, see RotaryAxes.
    std::optional<Matrix> coordinates = {};
};

/// What self-attention keeps of the tokens so far, per layer; empty at the beginning.
template <Sequence T>
using LanguageModelCache = std::vector<SelfAttentionCacheOf<T>>;

/// The results of language_model() with a cache.
template <Sequence T>
struct LanguageModelStep {
    T logits; ///< ((b,) n, vocabulary), of the new tokens
    LanguageModelCache<T> cache;
};

/// A decoder that is described, such as GPT-2, Llama or Gemma: for every token, the logits of the one after it. Or an
/// encoder, such as BERT: for every token, the last hidden state, or the logits of the token in its place.
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
///                     width, window.1 of another). Where embeddings are narrower than tokens, the first layer takes
///                     `mapped`, in the scope embedding_map. With an output map, a bias, a scale or a softcap, `products` comes
///                     before `logits`.
///
///                     An encoder has no `causal`, and no mask but that of lengths or a window, which goes as far to both
///                     sides. Token types are looked up in the scope token_type_embedding. Where positions count tokens
///                     only, `counted` is `1 * (ids < P) + 1 * (ids > P)`, of the padding's id P, `position_ids` is
///                     `P + counted * (counted @ (arange(N)[:, None] <= arange(N)))`, and position_embedding looks them
///                     up. With a dropout of tokens, `kept` is 0 where an id is that of a hidden token and 1 elsewhere, `factor` is
///                     `0.88 / (1 - sum(1 - kept, axis=-1) / N)`, and `dropped` is `tokens * (kept * factor)[:, None]`. A head has the steps `hidden` and `activated` and the norm in the scope prediction_head. Without logits,
///                     `output` is another name of the last tokens, and those of a pooler have the steps of pool() in its scope, unless
///                     the tokens follow others in a cache.
///
///                     Where words alone are narrower, `mapped`, in the scope word_map, stands in place of `tokens`, and
///                     output_map.mapped follows the last norm. A table of biases by distance has the steps of bucket_bias()
///                     in the scope distance_bias, of the model or of a layer, where `bias` is its result. A decoder with
///                     cross-attention has the input `memory`, and where that is padded the scope of_memory, whose `mask` is
///                     the layers' `memory_mask`.
/// @return the logits, (n, vocabulary), or the tokens after the last layer, (n, d_model)
/// @throws ShapeError where an id or a type is no row of its table, or weights disagree
/// @throws Error      where there are not as many descriptions as layers, there are types and no table of them, or as
///                    decoder_block() or pool()
Matrix language_model(const Integers& ids, const LanguageModelWeights& weights,
                      const LanguageModelDescription& description, const Trace& trace = {});
/// @copydoc language_model(const Integers&, const LanguageModelWeights&, const LanguageModelDescription&, const Trace&)
/// @param options  token types; what a decoder with cross-attention attends to
Matrix language_model(const Integers& ids, const LanguageModelWeights& weights,
                      const LanguageModelDescription& description, const LanguageModelOptions<Integers>& options,
                      const Trace& trace = {});

/// The same for a batch, (b, n): each step has the axis b in front.
/// @param padding  which tokens of each sequence are real; all of them unless given
/// @return the logits, (b, n, vocabulary), or the tokens; those of padding mean nothing
/// @throws Error where padding stands before a token, and a decoder has learned positions, which can count it or not, or a
///               gated DeltaNet, whose state would have it
Tensor3 language_model(const IntegerMatrix& ids, const Padding& padding, const LanguageModelWeights& weights,
                       const LanguageModelDescription& description, const Trace& trace = {});
/// @copydoc language_model(const IntegerMatrix&, const Padding&, const LanguageModelWeights&, const LanguageModelDescription&, const Trace&)
/// @param options  token types
Tensor3 language_model(const IntegerMatrix& ids, const Padding& padding, const LanguageModelWeights& weights,
                       const LanguageModelDescription& description, const LanguageModelOptions<IntegerMatrix>& options,
                       const Trace& trace = {});

/// The same for tokens that are embedded already, such as patches of an image: positions are added to them.
/// @param tokens  (n, d_model)
/// @throws Error of a model that counts or types its tokens by their ids
Matrix language_model(const Matrix& tokens, const LanguageModelWeights& weights,
                      const LanguageModelDescription& description, const Trace& trace = {});
/// @copydoc language_model(const Matrix&, const LanguageModelWeights&, const LanguageModelDescription&, const Trace&)
/// @param coordinates  (axes, n): where tokens stand, of a model that rotates along several axes
Matrix language_model(const Matrix& tokens, const LanguageModelWeights& weights,
                      const LanguageModelDescription& description, const std::optional<Matrix>& coordinates,
                      const Trace& trace = {});
/// The same for a batch, (b, n, d_model), whose sequences have the same coordinates.
Tensor3 language_model(const Tensor3& tokens, const Padding& padding, const LanguageModelWeights& weights,
                       const LanguageModelDescription& description, const Trace& trace = {});
/// @copydoc language_model(const Tensor3&, const Padding&, const LanguageModelWeights&, const LanguageModelDescription&, const Trace&)
Tensor3 language_model(const Tensor3& tokens, const Padding& padding, const LanguageModelWeights& weights,
                       const LanguageModelDescription& description, const std::optional<Matrix>& coordinates,
                       const Trace& trace = {});

/// The same for tokens that follow those in a cache.
/// @param past  the cache of the tokens before them; an empty one at the beginning
/// @return the logits of the new tokens, which are those of all tokens at once, and the cache with the new ones in it
/// @throws Error of an encoder, whose earlier tokens would attend to the new ones
LanguageModelStep<Matrix> language_model(const Integers& ids, const LanguageModelCache<Matrix>& past,
                                         const LanguageModelWeights& weights,
                                         const LanguageModelDescription& description, const Trace& trace = {});

/// The keys and values that each layer of a decoder with cross-attention makes of a memory, once for all tokens.
/// @param memory  (m, d_memory)
/// @param trace   in the scopes layers.0.cross_attn, … the maps' steps `key` and `value`
/// @throws Error where a layer has no cross-attention
std::vector<KeyValueCache> memory_cache(const Matrix& memory, const LanguageModelWeights& weights,
                                        const Trace& trace = {});

/// The same as with a cache of tokens alone, of a decoder with cross-attention.
/// @param memory     of memory_cache()
/// @param embedding  as in LanguageModelOptions
LanguageModelStep<Matrix> language_model(const Integers& ids, const LanguageModelCache<Matrix>& past,
                                         const std::vector<KeyValueCache>& memory, const LanguageModelWeights& weights,
                                         const LanguageModelDescription& description, const Matrix* embedding = nullptr,
                                         const Trace& trace = {});

/// What self-attention keeps of tokens of several sequences, in any order, and where each of them stands.
struct PlacedCache {
    LanguageModelCache<Matrix> layers = {};
    Places places = {};
};

/// The results of language_model() of tokens with places.
struct PlacedStep {
    Matrix logits; ///< (n, vocabulary), of the new tokens
    PlacedCache cache;
};

/// The same for tokens of several sequences side by side, which stand where `places` says. A token attends to the tokens
/// of its own sequence, in the cache and among the new ones, that are not later than it: so a server packs what
/// many users ask into one call.
/// @param places  of which sequence each token is, and at which position
/// @param past    of earlier calls; an empty one at the beginning
/// @param trace   as above, with the inputs `positions`, `key_positions`, `sequences` and `key_sequences`, see join_masks()
/// @return the logits, each as its sequence alone would have it, and the cache with the new tokens after the old ones
/// @throws ShapeError where a token has no place, or a position is no row of the table of positions
/// @throws Error      of an encoder, of a model with has_states(), of one that counts its tokens by their ids, and where
///                    rotary positions depend on how long a text is
PlacedStep language_model(const Integers& ids, const Places& places, const PlacedCache& past,
                          const LanguageModelWeights& weights, const LanguageModelDescription& description,
                          const Trace& trace = {});

/// The cache of some of its tokens, in the order that is asked for; a token can be asked for twice, for a sequence that
/// goes on in two ways, with its new sequence written into the places.
PlacedCache chosen(const PlacedCache& cache, const std::vector<std::size_t>& tokens);

/// Whether a layer carries a state from token to token, in place of keys and values of each: a gated DeltaNet.
bool has_states(const LanguageModelWeights& weights);

} // namespace attn
