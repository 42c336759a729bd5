#pragma once

#include "attn/reference/layers/cache.hpp"
#include "attn/reference/layers/decoder.hpp"

namespace attn {

/// The results of cached_decoder_layer().
template <Sequence T>
struct CachedDecoderLayerOf {
    T output;                        ///< ((b,) n, d_model), of the new tokens
    KeyValueCacheOf<Value<T>> cache; ///< of self-attention: of all tokens, the new ones among them
};

/// One decoder layer on tokens that follow those in a cache: with a causal mask, the rows that decoder_layer() gives for them.
///
/// @param x        ((b,) n, d_model): the new tokens
/// @param memory   ((b,) m, d_memory): the encoder's output, whose keys and values are computed in each call
/// @param past     keys and values of self-attention, of the tokens before them; none at the beginning
/// @param weights  as of decoder_layer()
/// @param options  as of decoder_layer(); mask and bias of self-attention have a column for each earlier token, too
/// @param trace    the steps of decoder_layer(), but in self_attn those of cached_self_attention()
/// @throws ShapeError where x, memory, past, weights and masks disagree
/// @see Vaswani et al. 2017, section 3.1; Shazeer 2019, section 2.4.1
template <Sequence T>
CachedDecoderLayerOf<T> cached_decoder_layer(const T& x, const T& memory, const PastOfTokens<Value<T>>& past,
                                             const DecoderLayerWeights& weights, const DecoderOptions& options = {},
                                             const Trace& trace = {});
ATTN_REFUSE_OTHER_TENSORS(cached_decoder_layer);

/// The keys and values of one decoder layer that later tokens use again.
struct DecoderLayerCache {
    std::optional<KeyValueCache> tokens = {}; ///< of self-attention: a row per token so far; none before the first
    KeyValueCache memory;                     ///< of cross-attention: those of the memory, the same for every token
};

/// The same for all layers. A step takes one and returns another.
struct DecoderCache {
    std::vector<DecoderLayerCache> layers;
};

/// The cache before the first token: the memory's keys and values of every layer, computed once.
///
/// @param memory   (m, d_memory): the encoder's output
/// @param weights  of the decoder
/// @param trace    in the scopes layers.0.cross_attn, layers.1.cross_attn, …
///
///                 | step                           | shape             | formula                                |
///                 |--------------------------------|-------------------|----------------------------------------|
///                 | memory                         | (m, d_memory)     |                                        |
///                 | layers.0.cross_attn.key_weights | (d_memory, h_d_k) |                                       |
///                 | layers.0.cross_attn.key_bias   | (h_d_k,)          |                                        |
///                 | layers.0.cross_attn.key        | (m, h_d_k)        | memory @ key_weights + key_bias        |
///                 | layers.0.cross_attn.value_weights | (d_memory, h_d_v) |                                     |
///                 | layers.0.cross_attn.value_bias | (h_d_v,)          |                                        |
///                 | layers.0.cross_attn.value      | (m, h_d_v)        | memory @ value_weights + value_bias    |
/// @throws ShapeError where memory and weights disagree
DecoderCache start_decoder_cache(const Matrix& memory, const DecoderWeights& weights, const Trace& trace = {});

/// The results of decoder_step().
struct DecoderStep {
    Matrix output;      ///< (n, d_model), of the new tokens
    DecoderCache cache; ///< with the new tokens in it
};

/// A decoder that computes the newest tokens only; the keys and values of earlier ones are in the cache.
///
/// Under a causal mask later tokens don't change earlier ones, nor their keys and values in any layer. The output is that
/// of decoder() under a causal mask, at the rows of the new tokens.
///
/// @param x            (n, d_model): the new tokens, embedded at the positions after those in the cache; usually one
/// @param cache        of start_decoder_cache(), or of the step before
/// @param weights      of the decoder
/// @param options      as of decoder(), without mask and bias of self-attention, which is causal in any case
/// @param trace        in the scopes layers.0, layers.1, … the steps of decoder_layer(), but in self_attn those of
///                     cached_self_attention(), and in cross_attn those of cached_cross_attention()
/// @throws ShapeError where x, cache and weights disagree
/// @throws Error      where self-attention has a mask or a bias
DecoderStep decoder_step(const Matrix& x, const DecoderCache& cache, const DecoderWeights& weights,
                         const DecoderOptions& options = {}, const Trace& trace = {});

/// The sizes that decide how many multiplications a decoder takes.
struct DecoderSizes {
    std::size_t layers;
    std::size_t d_model;
    std::size_t d_ff;
    std::size_t m; ///< tokens of the memory
};

/// @name Multiplications of a decoder's matrix products, as attn computes them; the number of heads makes no difference
/// @{
/// All n tokens at once: layers (6 n d^2 + 2 m d^2 + 2 n n d + 2 n m d + 2 n d d_ff), d for d_model.
std::size_t decoder_multiplications(std::size_t n, const DecoderSizes& sizes);
/// The memory's keys and values: layers 2 m d^2.
std::size_t decoder_cache_multiplications(const DecoderSizes& sizes);
/// Token number n with the n - 1 before it in a cache: layers (6 d^2 + 2 n d + 2 m d + 2 d d_ff).
std::size_t decoder_step_multiplications(std::size_t n, const DecoderSizes& sizes);
/// @}

} // namespace attn
