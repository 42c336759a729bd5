#pragma once

#include "attn/reference/layers/decoder.hpp"

#include "attn/reference/layers/stack.hpp"
#include "attn/reference/ops/terms.hpp"

/// A decoder layer, for keys and values from a cache or without one.
namespace attn {

/// Cross-attention has as many heads as self-attention, the same scale, softcap and norms of queries and keys; it has neither
/// positions nor a causal mask.
inline MultiHeadOptions cross_options(const DecoderOptions& options)
{
    const auto& [heads, mask, bias, causal, scale, softcap, positions, rotary, norm_kind, norm, unit_epsilon,
                 temperature, places] = options.attention; // scaled by their positions, which a memory has not

    return {.heads = heads,
            .mask = options.memory_mask,
            .bias = options.memory_bias,
            .scale = scale,
            .softcap = softcap,
            .norm_kind = norm_kind,
            .norm = norm,
            .unit_epsilon = unit_epsilon};
}

/// In the scope of cross-attention its mask and bias are those of the memory, not of self-attention, which a scope around has.
inline void name_memory_mask(const DecoderOptions& options, const Trace& cross_attn)
{
    if (options.memory_mask)
        cross_attn.alias("mask", "memory_mask");
    if (options.memory_bias)
        cross_attn.alias("bias", "memory_bias");
}

/// Cross-attention of a block's tokens to a memory.
template <Sequence T>
Term<T> attend_to_memory(const Term<T>& y, const Term<T>& memory, const DecoderLayerWeights& weights,
                         const DecoderOptions& options, const Trace& cross_attn)
{
    const Term queries = cross_attn.input("x[(b,) n, d_model]", y);
    const Term others = cross_attn.input("memory[(b,) m, d_memory]", memory);
    name_memory_mask(options, cross_attn);
    return multi_head_attention(Sources(queries, others), weights.cross_attention, cross_options(options), cross_attn)
        .output;
}

/// @param attend  self-attention: from (tokens, scope) to the self-attention's output
/// @param cross   cross-attention: from (tokens, scope) to the cross-attention's output
template <Sequence T, class Attend, class Cross>
Term<T> decoder_blocks(std::string_view function, const Term<T>& x, const DecoderLayerWeights& weights,
                       const DecoderOptions& options, const Trace& trace, const Attend& attend, const Cross& cross)
{
    const auto norm1 = [&](const auto& y) { return layer_norm(y, weights.norm1, options.norm, trace.scope("norm1")); };
    const auto norm2 = [&](const auto& y) { return layer_norm(y, weights.norm2, options.norm, trace.scope("norm2")); };
    const auto norm3 = [&](const auto& y) { return layer_norm(y, weights.norm3, options.norm, trace.scope("norm3")); };
    const auto self_attn = [&](const auto& y) {
        return added_to(x, function, "self_attn", attend(y, trace.scope("self_attn")));
    };
    const auto cross_attn = [&](const auto& y) {
        return added_to(x, function, "cross_attn", cross(y, trace.scope("cross_attn")));
    };
    const auto map = [&](const auto& y) {
        return added_to(x, function, "feed_forward",
                        feed_forward(y, weights.feed_forward, options.feed_forward, trace.scope("feed_forward")));
    };

    // Attend to the other tokens, then to the memory, then map each token by itself; add each result to its input.
    if (options.placement == NormPlacement::pre) {
        const Term attended = trace("residual1[(b,) n, d_model]", x + self_attn(norm1(x)));
        const Term informed = trace("residual2[(b,) n, d_model]", attended + cross_attn(norm2(attended)));
        return trace("output[(b,) n, d_model]", informed + map(norm3(informed)));
    }
    const Term attended = norm1(trace("residual1[(b,) n, d_model]", x + self_attn(x)));
    const Term informed = norm2(trace("residual2[(b,) n, d_model]", attended + cross_attn(attended)));
    const Term mapped = norm3(trace("residual3[(b,) n, d_model]", informed + map(informed)));
    return trace.alias("output", mapped);
}

} // namespace attn
