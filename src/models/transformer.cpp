#include "attn/models/transformer.hpp"

#include "../layers/blocks.hpp"

namespace attn {
namespace {

StepOptions describe(const TransformerOptions& options, const TransformerWeights& weights)
{
    StepOptions described = describe_layer(decoder_options(options));
    described.emplace_back("encoder_layers", std::to_string(weights.encoder.layers.size()));
    described.emplace_back("decoder_layers", std::to_string(weights.decoder.layers.size()));
    return described;
}

/// A stack calls its own mask `mask`, whatever it is called outside.
void rename_mask(std::optional<AnyMask>& mask, std::string_view from, const Trace& trace)
{
    if (mask)
        mask = std::visit([&](const auto& any) -> AnyMask { return trace("mask[(b,) n, m]", from, any); }, *mask);
}

template <Sequence T>
T encode(const T& source, const EncoderWeights& weights, EncoderOptions options, const Trace& caller)
{
    const Trace trace = caller.scope("encoder");
    const T x = trace("x[(b,) n, d_model]", "source", source);
    rename_mask(options.attention.mask, "source_mask", trace);
    return encoder(x, weights, options, trace);
}

template <Sequence T>
T decode(const T& target, const T& memory, const DecoderWeights& weights, DecoderOptions options, const Trace& caller)
{
    const Trace trace = caller.scope("decoder");
    const T x = trace("x[(b,) n, d_model]", "target", target);
    const T known = trace("memory[(b,) m, d_memory]", "encoder.output", memory);
    rename_mask(options.attention.mask, "target_mask", trace);
    return decoder(x, known, weights, options, trace);
}

template <Sequence T>
T whole(const T& source, const T& target, const TransformerWeights& weights, const TransformerOptions& options,
        const Trace& caller)
{
    const Trace trace = caller.module("transformer", [&] { return describe(options, weights); });
    trace.input("source[(b,) m, d_model]", source);
    trace.input("target[(b,) n, d_model]", target);
    name_mask("source_mask[(b,) n, m]", options.source_mask, trace);
    name_mask("target_mask[(b,) n, m]", options.target_mask, trace);
    name_mask("memory_mask[(b,) n, m]", options.memory_mask, trace);

    // Read the source, then write the target with what was read at hand.
    const T memory = encode(source, weights.encoder, encoder_options(options), trace);
    const T output = decode(target, memory, weights.decoder, decoder_options(options), trace);
    return trace("output[(b,) n, d_model]", "decoder.output", output);
}

} // namespace

EncoderOptions encoder_options(const TransformerOptions& options)
{
    return {.attention = {.heads = options.heads, .mask = options.source_mask},
            .feed_forward = options.feed_forward,
            .norm = options.norm,
            .placement = options.placement,
            .final_norm = options.final_norm};
}

DecoderOptions decoder_options(const TransformerOptions& options)
{
    return {.attention = {.heads = options.heads, .mask = options.target_mask},
            .memory_mask = options.memory_mask,
            .feed_forward = options.feed_forward,
            .norm = options.norm,
            .placement = options.placement,
            .final_norm = options.final_norm};
}

Matrix transformer(const Matrix& source, const Matrix& target, const TransformerWeights& weights,
                   const TransformerOptions& options, const Trace& trace)
{
    return whole(source, target, weights, options, trace);
}

Tensor3 transformer(const Tensor3& source, const Tensor3& target, const TransformerWeights& weights,
                    const TransformerOptions& options, const Trace& trace)
{
    return whole(source, target, weights, options, trace);
}

} // namespace attn
