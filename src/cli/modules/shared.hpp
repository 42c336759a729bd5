#pragma once

#include "module.hpp"

#include "attn/layers/encoder.hpp"

namespace attn {

/// @name Flags that several modules take
/// @{
Flag heads_flag(std::size_t& heads);
Flag scale_flag(std::optional<double>& scale);
/// @param whose  keys: " of the target", or nothing
Flag mask_flag(std::optional<Causal>& causal, const std::string& whose = "");
Flag rotary_base_flag(RotaryOptions& rotary);
Flag epsilon_flag(LayerNormOptions& options);
Flag activation_flag(FeedForwardOptions& options);
std::vector<Flag> head_flags(MultiHeadOptions& options);
/// @}

/// Both after each other.
std::vector<Flag> operator+(std::vector<Flag> left, std::vector<Flag> right);

/// The flags of an encoder and a decoder that are not their options.
struct StackFlags {
    std::optional<Causal> causal = {};
    std::optional<double> final_epsilon = {};
    std::optional<std::size_t> layers = {};
};

/// Of a layer: activation, epsilon, norm.
template <class Options>
std::vector<Flag> layer_flags(Options& options)
{
    return {activation_flag(options.feed_forward),
            epsilon_flag(options.norm),
            {"--norm", "", one_of(options.placement, {{"post", NormPlacement::post}, {"pre", NormPlacement::pre}}),
             "where layer norms stand: after each block, or before it"}};
}

/// Of a stack of layers.
std::vector<Flag> stack_flags(StackFlags& flags);

/// @throws Error where the norm after a stack should have an epsilon, and the weights have no such norm
template <class Stack>
void expect_final_norm(const StackFlags& flags, const Stack& weights)
{
    if (flags.final_epsilon && !weights.norm)
        throw Error("--final-epsilon has no effect: the weights have no norm after the last layer");
}

/// The input's mask and lengths, and the flag's, joined to one mask.
template <Sequence T>
std::optional<AnyMask> joined_mask(const T& queries, const T& keys, std::optional<Causal> causal, const ModuleRun& run)
{
    const MaskParts parts{.given = run.inputs.mask("mask", queries, keys),
                          .causal = causal,
                          .key_lengths = run.inputs.lengths("lengths", keys)};
    return join_masks(queries.shape(token_axis<T>), keys.shape(token_axis<T>), parts, run.trace);
}

} // namespace attn
