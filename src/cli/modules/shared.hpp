#pragma once

#include "module.hpp"

#include "attn/reference/layers/cache.hpp"
#include "attn/reference/models/transformer.hpp"

namespace attn::cli {

/// @name Flags that several modules take
/// @{
Flag heads_flag(std::size_t& heads);
Flag scale_flag(std::optional<double>& scale);
Flag softcap_flag(std::optional<double>& softcap);
/// @param whose  keys: " of the target", or nothing
Flag mask_flag(std::optional<Causal>& causal, const std::string& whose = "");
Flag rotary_base_flag(RotaryOptions& rotary);
Flag epsilon_flag(LayerNormOptions& options);
Flag activation_flag(FeedForwardOptions& options);
/// Of a gated feed-forward network.
std::vector<Flag> gate_flags(GatedFeedForwardOptions& options);
/// @param position  what a query's own position is: " (of --mask)", or nothing
std::vector<Flag> window_flags(Window& window, const std::string& position = "");
Flag rotary_layout_flag(RotaryLayout& layout);
Flag rotary_features_flag(std::optional<std::size_t>& features);
Flag rotary_scaling_flag(RotaryScaling& scaling);
Flag first_flag(std::size_t& first);
std::vector<Flag> head_flags(MultiHeadOptions& options);
/// @param function  that computes then: "fast::encoder_layer()"
Flag fast_flag(bool& is_fast, const std::string& function);
/// @}

/// One list after the other.
std::vector<Flag> operator+(std::vector<Flag> left, std::vector<Flag> right);

/// The flags of an encoder, a decoder, a layer of either, and a whole Transformer: their options, and what else is asked.
struct StackFlags {
    EncoderOptions options = {};
    std::optional<Causal> causal = {}; ///< joined with the masks of the input
    std::optional<double> final_epsilon = {};
    std::optional<std::size_t> layers = {};
    bool is_fast = false;

    std::vector<Flag> of_feed_forward_and_norm();
    /// @param whose  keys a causal mask is about: " of the target", or nothing
    std::vector<Flag> of_layer(const std::string& whose = "");
    std::vector<Flag> of_stack();

    EncoderOptions all_options() const;
};

/// @throws Error where the norm after a stack should have an epsilon, and the weights have no such norm
template <class Stack>
void expect_final_norm(const StackFlags& flags, const Stack& weights)
{
    if (flags.final_epsilon && !weights.norm)
        throw Error("--final-epsilon has no effect: the weights have no norm after the last layer");
}

/// The input's mask and lengths, and the flag's, joined to one mask.
/// @param past  how many of the keys were there before the first query
OptionalMask joined_mask(const PairAxes& axes, std::optional<Causal> causal, const ModuleRun& run,
                         const Window& window = {}, std::size_t past = 0);

/// What hides pairs of one attention, and what is added to their scaled scores.
struct MaskAndBias {
    OptionalMask mask = {};
    OptionalBias bias = {};
};

/// @name The flags' options with the masks and biases of the input
/// @{
template <class Options>
Options masked(Options options, const MaskAndBias& own)
{
    options.mask = own.mask;
    options.bias = own.bias;
    return options;
}
EncoderOptions masked_layer(const EncoderOptions& flags, const MaskAndBias& own);
DecoderOptions masked_decoder(const EncoderOptions& flags, const MaskAndBias& own, const MaskAndBias& of_memory);
TransformerOptions masked_transformer(const EncoderOptions& flags, const MaskAndBias& of_source,
                                      const MaskAndBias& of_target, const MaskAndBias& of_memory);
/// @}

/// The same of the tokens of a layer or a stack, which attend to themselves, and the numbers that the input's mask adds.
/// @param heads  of the tokens, where each head can have a mask of its own
/// @param past   how many tokens were there before them
template <Sequence T>
MaskAndBias own_mask(const T& x, std::optional<Causal> causal, const ModuleRun& run, std::size_t heads,
                     std::size_t past = 0)
{
    PairAxes axes = pair_axes(x, x, heads);
    axes.keys += past;
    return {joined_mask(axes, causal, run, {}, past), run.inputs.bias("mask", axes)};
}

/// How many tokens the input's past_keys have; 0 where there is no past.
/// @throws Error where one of past_keys and past_values is given without the other
std::size_t tokens_of_past(const Inputs& inputs);

/// The input's past_keys and past_values, heads side by side; nothing where there are none.
/// @param heads  of the queries
/// @throws Error as tokens_of_past(), and where they do not fit the weights
template <Sequence T>
PastOfTokens<T> packed_past(const T& x, const MultiHeadWeights& weights, std::size_t heads, const Inputs& inputs);

/// @throws Error where there are lengths, of a single sequence
void expect_no_lengths(const ModuleRun& run);

} // namespace attn::cli
