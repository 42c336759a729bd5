#include "attn/reference/models/transformer.hpp"

#include "attn/reference/layers/stack.hpp"

namespace attn {

EncoderOptions encoder_options(const TransformerOptions& options)
{
    const auto& [attention, source_mask, source_bias, memory_mask, memory_bias, feed_forward, norm, placement,
                 final_norm] = options;
    MultiHeadOptions of_source = attention;
    of_source.mask = source_mask;
    of_source.bias = source_bias;
    of_source.causal.reset();
    return {of_source, feed_forward, norm, placement, final_norm};
}

DecoderOptions decoder_options(const TransformerOptions& options)
{
    const auto& [attention, source_mask, source_bias, memory_mask, memory_bias, feed_forward, norm, placement,
                 final_norm] = options;
    return {attention, memory_mask, memory_bias, feed_forward, norm, placement, final_norm};
}

namespace {

/// Names the masks and biases in this scope.
template <Sequence T>
TransformerOptions with_named_masks(const T& target, const TransformerOptions& given, const Trace& trace)
{
    const std::size_t n = target.shape(token_axis<T>);
    const MultiHeadOptions& of_target = given.attention;
    TransformerOptions options = given;
    options.source_mask = share("source_mask[(b,) n, m]", given.source_mask, trace);
    options.attention.mask =
        join_masks(n, n, {.given = of_target.mask, .causal = of_target.causal}, trace, "target_mask[(b,) n, m]");
    options.memory_mask = share("memory_mask[(b,) n, m]", given.memory_mask, trace);
    options.source_bias = share("source_bias[(b,) n, m]", given.source_bias, trace);
    options.attention.bias = share("target_bias[(b,) n, m]", of_target.bias, trace);
    options.memory_bias = share("memory_bias[(b,) n, m]", given.memory_bias, trace);
    options.attention.causal.reset();
    return options;
}

} // namespace

template <Sequence T>
T transformer(const T& given_source, const T& given_target, const TransformerWeights& weights,
              const TransformerOptions& given, const Trace& caller)
{
    const Trace trace = caller.module("transformer", [&] {
        StepOptions described = describe_layer(given);
        described.emplace_back("encoder_layers", std::to_string(weights.encoder.layers.size()));
        described.emplace_back("decoder_layers", std::to_string(weights.decoder.layers.size()));
        return described;
    });
    const Term source = trace.input("source[(b,) m, d_model]", Term(given_source));
    const Term target = trace.input("target[(b,) n, d_model]", Term(given_target));
    const TransformerOptions options = with_named_masks(given_target, given, trace);

    // Encode the source.
    const Trace of_source = trace.scope("encoder");
    const Term encoded = of_source.input("x[(b,) n, d_model]", source);
    if (options.source_mask)
        of_source.alias("mask", "source_mask");
    if (options.source_bias)
        of_source.alias("bias", "source_bias");
    const Term memory = encoder(encoded, weights.encoder, encoder_options(options), of_source);

    // Decode the target, whose tokens attend to the encoded source.
    const Trace of_target = trace.scope("decoder");
    const Term decoded = of_target.input("x[(b,) n, d_model]", target);
    const Term attended = of_target.input("memory[(b,) m, d_memory]", memory);
    if (options.attention.mask)
        of_target.alias("mask", "target_mask");
    if (options.attention.bias)
        of_target.alias("bias", "target_bias");
    const Term output = decoder(decoded, attended, weights.decoder, decoder_options(options), of_target);
    return T(trace.alias("output", output));
}

template decltype(transformer<Matrix>) transformer<Matrix>;
template decltype(transformer<Tensor3>) transformer<Tensor3>;

} // namespace attn
