#pragma once

#include "attn/reference/models/greedy_decode.hpp"

#include <utility>

/// Options with masks and biases, for tests that draw them apart.
namespace attn::test {

/// With a mask and a bias of (self-)attention.
template <class Options>
Options masked(Options options, OptionalMask mask, OptionalBias bias = {})
{
    if constexpr (requires { options.attention; })
        options.attention = masked(std::move(options.attention), std::move(mask), std::move(bias));
    else {
        options.mask = std::move(mask);
        if constexpr (requires { options.bias; })
            options.bias = std::move(bias);
    }
    return options;
}

/// @name What an encoder's options are for a decoder, and for both
/// @{
inline DecoderOptions for_decoder(const EncoderOptions& options)
{
    const auto& [attention, feed_forward, norm, placement, final_norm] = options;
    return {.attention = attention,
            .feed_forward = feed_forward,
            .norm = norm,
            .placement = placement,
            .final_norm = final_norm};
}
inline TransformerOptions for_transformer(const EncoderOptions& options)
{
    const auto& [attention, feed_forward, norm, placement, final_norm] = options;
    return {.attention = attention,
            .feed_forward = feed_forward,
            .norm = norm,
            .placement = placement,
            .final_norm = final_norm};
}
/// @}

/// With a mask of self-attention and one of the memory.
inline DecoderOptions masked_decoder(DecoderOptions options, OptionalMask mask, OptionalMask memory_mask)
{
    options.attention.mask = std::move(mask);
    options.memory_mask = std::move(memory_mask);
    return options;
}

/// With a mask of the source, of the target and of the memory.
inline TransformerOptions masked_transformer(TransformerOptions options, OptionalMask source, OptionalMask target,
                                             OptionalMask memory)
{
    options.source_mask = std::move(source);
    options.attention.mask = std::move(target);
    options.memory_mask = std::move(memory);
    return options;
}

/// With a mask of the source.
inline GreedyOptions masked_source(GreedyOptions options, OptionalMask source)
{
    options.transformer.source_mask = std::move(source);
    return options;
}

} // namespace attn::test
