#include "attn/reference/models/transformer.hpp"

#include "attn/reference/layers/stack.hpp"

namespace attn {

template <Sequence T>
T transformer(const T& given_source, const T& given_target, const MaskAndBias& given_source_mask,
              const MaskAndBias& given_target_mask, const MaskAndBias& given_memory_mask,
              const TransformerWeights& weights, const TransformerOptions& options, const Trace& caller)
{
    const Trace trace = caller.module("transformer", [&] {
        StepOptions described = describe(options);
        described.emplace_back("encoder_layers", std::to_string(weights.encoder.layers.size()));
        described.emplace_back("decoder_layers", std::to_string(weights.decoder.layers.size()));
        return described;
    });
    const std::size_t n = given_target.shape(token_axis<T>);
    const T& source = trace.input("source[(b,) m, d_model]", given_source);
    const T& target = trace.input("target[(b,) n, d_model]", given_target);
    const auto source_mask = share("source_mask[(b,) n, m]", given_source_mask.mask, trace);
    const auto target_mask = join_masks(n, n, {.given = given_target_mask.mask, .causal = options.attention.causal},
                                        trace, "target_mask[(b,) n, m]");
    const auto memory_mask = share("memory_mask[(b,) n, m]", given_memory_mask.mask, trace);
    const auto source_bias = share("source_bias[(b,) n, m]", given_source_mask.bias, trace);
    const auto target_bias = share("target_bias[(b,) n, m]", given_target_mask.bias, trace);
    const auto memory_bias = share("memory_bias[(b,) n, m]", given_memory_mask.bias, trace);
    const TransformerOptions masked = without_causal(options);

    // Encode the source.
    const Trace of_source = trace.scope("encoder", {{"x", "source"}});
    if (source_mask)
        of_source.alias("mask", "source_mask");
    if (source_bias)
        of_source.alias("bias", "source_bias");
    const T memory = encoder(source, {source_mask, source_bias}, weights.encoder, masked, of_source);

    // Decode the target, whose tokens attend to the encoded source.
    const Trace of_target = trace.scope("decoder", {{"x", "target"}, {"memory", "encoder.output"}});
    if (target_mask)
        of_target.alias("mask", "target_mask");
    if (target_bias)
        of_target.alias("bias", "target_bias");
    T output = decoder(target, memory, {target_mask, target_bias}, {memory_mask, memory_bias}, weights.decoder, masked,
                       of_target);
    trace.alias("output", "decoder.output");
    return output;
}

template decltype(transformer<Matrix>) transformer<Matrix>;
template decltype(transformer<Tensor3>) transformer<Tensor3>;

} // namespace attn
