#pragma once

#include "attn/reference/layers/cache.hpp"
#include "attn/reference/layers/experts.hpp"
#include "attn/reference/layers/feed_forward.hpp"
#include "attn/reference/layers/gated_delta_net.hpp"
#include "attn/reference/layers/gated_feed_forward.hpp"
#include "attn/reference/layers/latent_attention.hpp"
#include "attn/reference/layers/norm.hpp"

#include <optional>
#include <string_view>
#include <type_traits>
#include <variant>

namespace attn {

/// Where the norms of a block stand.
enum class NormPlaces {
    before,         ///< x + sublayer(norm(x)): GPT-2, Llama
    after_sum,      ///< norm(x + sublayer(x)): Vaswani et al. 2017, BERT
    after_sublayer, ///< x + norm(sublayer(x)): OLMo 2
    around          ///< x + post_norm(sublayer(norm(x))): Gemma 2
};

/// Its name as a trace has it: "before", "after-sum", "after-sublayer", "around".
std::string_view name_of(NormPlaces places);

/// A layer of a Transformer as models have it: what is the same for every token and does not follow from the weights.
///
/// Whether maps have biases, heads share keys and values, queries and keys have norms, and the network is gated or a mixture of experts
/// follows from the weights.
struct BlockDescription {
    NormDescription norm = {};
    NormPlaces places = NormPlaces::before;
    bool has_first_norm = true;      ///< false in ModernBERT's first layer, which a norm stands in front of
    bool is_parallel = false;        ///< both sublayers of the same x: x + attention(x) + network(x)
    double residual_scale = 1;       ///< what a sublayer's result is multiplied by before it is added
    MultiHeadOptions attention = {}; ///< of either kind: heads, scale, positions; without masks, which are arguments
    GatedDeltaNetOptions delta_net = {}; ///< where a gated DeltaNet stands in place of attention
    /// A query can attend to so many keys only, its own the last of them; in an encoder also to as many after its own.
    std::optional<std::size_t> window = {};
    /// The tokens are divided into chunks of so many, from the first on, and a query can attend to keys of its own chunk only.
    std::optional<std::size_t> chunk = {};
    Activation activation = default_activation; ///< of the network
    ExpertsOptions experts = {};                ///< where the network is a mixture of experts, with their activation
    std::size_t kept = 0; ///< so many first tokens are in every window, however far they are: see Window
    /// Where norms stand before sublayers: their results, in place of what they were computed of, are what sublayers are added
    /// to, an option of BLOOM.
    bool adds_to_norms = false;
};

/// The description as a trace records it.
StepOptions describe(const BlockDescription& description);

/// The self-attention of a layer: multi-head, or multi-head latent attention, or a gated DeltaNet in its place.
using SelfAttentionWeights = std::variant<MultiHeadWeights, LatentAttentionWeights, GatedDeltaNetWeights>;

/// What it keeps of earlier tokens.
template <Sequence T>
using SelfAttentionCacheOf = std::variant<KeyValueCacheOf<T>, LatentCacheOf<T>, GatedDeltaNetCacheOf<T>>;

/// The cache of earlier tokens; none at the beginning.
template <Sequence T>
using PastOfBlock = std::optional<std::type_identity_t<SelfAttentionCacheOf<T>>>;

/// A network of a layer: plain, gated, or a mixture of experts.
using NetworkWeights = std::variant<FeedForwardWeights, GatedFeedForwardWeights, ExpertsWeights>;

/// The learned parameters of a block.
struct BlockWeights {
    std::optional<LayerNormWeights> norm1 = {};      ///< before attention, or after its sum
    std::optional<LayerNormWeights> post_norm1 = {}; ///< of what attention gives
    SelfAttentionWeights self_attention;
    std::optional<LayerNormWeights> norm2 = {};      ///< before the network; parallel sublayers can share norm1
    std::optional<LayerNormWeights> post_norm2 = {}; ///< of what the network gives
    NetworkWeights feed_forward;
    std::optional<Vector> scale1 = {}; ///< (d_model): what attention's result is multiplied by, in DINOv2
    std::optional<Vector> scale2 = {}; ///< (d_model): the network's
    /// Of a decoder that reads what an encoder gives: keys and values come from there.
    std::optional<MultiHeadWeights> cross_attention = {};
    std::optional<LayerNormWeights> cross_norm = {}; ///< before cross-attention, or after its sum
    std::optional<Matrix> distance_bias =
        {}; ///< (buckets, h): a bias by distance of this layer alone, see bucket_bias()
};

/// What the tokens of a decoder attend to besides each other: what an encoder gives, or the keys and values that a layer made
/// of that.
template <Sequence T>
struct BlockMemoryOf {
    std::variant<std::monostate, T, KeyValueCache> tokens = {}; ///< ((b,) m, d_memory)
    OptionalMask mask = {};                                     ///< (n, m) or (b, n, m), true where a token can attend
};

/// One layer of an encoder or decoder: self-attention and a feed-forward network, each added to its input.
///
/// @param x            ((b,) n, d_model)
/// @param weights      of both sublayers and the norms
/// @param description  where norms stand, heads, positions, activation
/// @param mask         (n, n) or (b, n, n), true where a token can attend: causal_mask() in a decoder; optional. A gated DeltaNet
///                     takes none: each of its tokens depends on those before it only
/// @param trace        in the scopes norm1, self_attn, norm2 and feed_forward, the steps of norm(), multi_head_attention() or
///                     latent_attention() or gated_delta_net(), and feed_forward(), gated_feed_forward() or experts(), and in its own, with the norms before the sublayers:
///
///                     | step           | shape             | formula                         |
///                     |----------------|-------------------|---------------------------------|
///                     | x              | ((b,) n, d_model) |                                 |
///                     | norm1.x        | ((b,) n, d_model) | = x                             |
///                     | self_attn.x    | ((b,) n, d_model) | = norm1.output                  |
///                     | residual1      | ((b,) n, d_model) | x + self_attn.output            |
///                     | norm2.x        | ((b,) n, d_model) | = residual1                     |
///                     | feed_forward.x | ((b,) n, d_model) | = norm2.output                  |
///                     | output         | ((b,) n, d_model) | residual1 + feed_forward.output |
///
///                     where = names a step again. With norms of what the sublayers give, those are in the scopes
///                     post_norm1 and post_norm2; in parallel `output` is `x + self_attn.output + feed_forward.output`; with a
///                     residual scale, or the learned `scale1` and `scale2`, the sublayer's result is multiplied by it. The mask, unless a scope around has named
///                     it, follows `x`. A layer with cross-attention attends to the memory between its two sublayers:
///                     `cross_residual` is `residual1 + cross_attn.output`, with the norm cross_norm, and stands in place of
///                     `residual1` in what follows. Where results are added to norms, these are `norm1.output + self_attn.output` and `norm2.output + feed_forward.output`.
/// @param memory       of a layer with cross-attention, and of no other
/// @return ((b,) n, d_model)
/// @throws ShapeError where x, weights and mask disagree
/// @throws Error      where weights have no norm where the description says that one stands, or one where none does, or a
///                    memory is given to a layer without cross-attention, or none to one with it
/// @see Vaswani et al. 2017, section 3.1; Touvron et al. 2023, "LLaMA", section 2.2; of the learned scales Touvron et al. 2021,
///      "Going deeper with Image Transformers", section 2
template <Sequence T>
T decoder_block(const T& x, const BlockWeights& weights, const BlockDescription& description,
                const OptionalMask& mask = {}, const Trace& trace = {}, const BlockMemoryOf<T>& memory = {});
ATTN_REFUSE_OTHER_TENSORS(decoder_block);

/// The results of cached_decoder_block().
template <Sequence T>
struct CachedBlockOf {
    T output;                             ///< ((b,) n, d_model), of the new tokens
    SelfAttentionCacheOf<Value<T>> cache; ///< of all m tokens
};

/// The same for tokens that follow those in a cache.
///
/// @param x            ((b,) n, d_model): the new tokens
/// @param past         what self-attention keeps of the tokens before them; none at the beginning
/// @param weights      of both sublayers and the norms
/// @param description  where norms stand, heads, positions, activation
/// @param mask         (n, m) or (b, n, m), m the tokens before and the new ones
/// @param trace        as decoder_block(), with the steps of cached_self_attention(), cached_latent_attention() or
///                     gated_delta_net() in self_attn
/// @throws ShapeError, Error  as decoder_block(), and where the past does not fit the weights, or is of the other kind of attention
template <Sequence T>
CachedBlockOf<T> cached_decoder_block(const T& x, const PastOfBlock<Value<T>>& past, const BlockWeights& weights,
                                      const BlockDescription& description, const OptionalMask& mask = {},
                                      const Trace& trace = {}, const BlockMemoryOf<T>& memory = {});
ATTN_REFUSE_OTHER_TENSORS(cached_decoder_block);

} // namespace attn
