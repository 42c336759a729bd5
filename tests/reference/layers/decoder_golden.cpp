// Decoder layers and whole Transformers on every case that PyTorch's modules computed, step by step.

#include "attn/core/recorder.hpp"
#include "attn/formula/verify.hpp"
#include "attn/reference/layers/activation.hpp"
#include "attn/reference/models/transformer.hpp"

#include "reference/layers/case.hpp"
#include "masked.hpp"
#include "test.hpp"

using namespace attn;
using namespace attn::formula;
using namespace attn::test;

namespace {

DecoderLayerWeights decoder_layer_of(const Case& of, const std::string& scope = "")
{
    const EncoderLayerWeights shared = layer_of(of, scope);
    return {shared.self_attention, heads_of(of, scope + "cross_attn."), shared.feed_forward, shared.norm1,
            shared.norm2,          norm_of(of, scope + "norm3.")};
}

TransformerWeights transformer_of(const Case& of)
{
    TransformerWeights weights{stack_of(of, "encoder."), {}};
    for (std::size_t i = 0; of.has("decoder.layers." + std::to_string(i) + ".x"); ++i)
        weights.decoder.layers.push_back(decoder_layer_of(of, "decoder.layers." + std::to_string(i) + "."));
    weights.decoder.norm = norm_of(of, "decoder.norm.");
    return weights;
}

NormPlacement placement_of(const Case& of) { return of.word(1) == "pre" ? NormPlacement::pre : NormPlacement::post; }

Activation activation_of(const Case& of) { return of.word(2) == "relu" ? Activation::relu : Activation::gelu; }

/// The mask of a memory is given, or joined in a scope of its own.
OptionalMask memory_mask_of(const Case& of, std::size_t n, std::size_t m, const Trace& trace)
{
    if (!of.has("memory_mask"))
        return std::nullopt;
    if (!of.has("memory_masking.mask"))
        return share("memory_mask[(b,) n, m]", OptionalMask(given_mask(of, "memory_mask")), trace);
    const Trace masking = trace.scope("memory_masking");
    const OptionalMask mask = mask_of(of, n, m, masking, "memory_masking.");
    trace.alias("memory_mask", "memory_masking.mask");
    return mask;
}

template <Sequence T>
void decode(const Case& of, const Trace& trace)
{
    const T x = of.get<T>("x"), memory = of.get<T>("memory");
    const std::size_t n = x.shape(token_axis<T>), m = memory.shape(token_axis<T>);
    const DecoderOptions options{.attention = {.heads = heads_in(of, "self_attn.")},
                                 .feed_forward = {.activation = activation_of(of)},
                                 .placement = placement_of(of)};
    const OptionalMask mask = mask_of(of, n, n, trace);
    const OptionalMask memory_mask = memory_mask_of(of, n, m, trace);
    decoder_layer(x, memory, decoder_layer_of(of), masked_decoder(options, mask, memory_mask), trace);
}

template <Sequence T>
void translate(const Case& of, const Trace& trace)
{
    const auto mask = [&](const std::string& step) {
        return of.has(step) ? OptionalMask(given_mask(of, step)) : OptionalMask();
    };
    const TransformerOptions options{.attention = {.heads = heads_in(of, "encoder.layers.0.self_attn.")},
                                     .feed_forward = {.activation = activation_of(of)},
                                     .placement = placement_of(of)};
    transformer(of.get<T>("source"), of.get<T>("target"), transformer_of(of),
                masked_transformer(options, mask("source_mask"), mask("target_mask"), mask("memory_mask")), trace);
}

void compute(const Case& of, const Trace& trace)
{
    if (of.word(0) == "decoder_layer")
        of.is_batch() ? decode<Tensor3>(of, trace) : decode<Matrix>(of, trace);
    else
        of.is_batch() ? translate<Tensor3>(of, trace) : translate<Matrix>(of, trace);
}

} // namespace

std::vector<GoldenCase> decoder_cases()
{
    std::vector<GoldenCase> result;
    for (const auto& [name, of] : cases_of("decoder"))
        result.push_back({name, of.steps(), [of = of](const Trace& trace) { compute(of, trace); }});
    return result;
}

TEST_CASE("every step of decoder layers and of whole Transformers is PyTorch's", "[layers][decoder][golden]")
{
    const std::vector<GoldenCase> all = decoder_cases();
    CHECK(all.size() == 16); // 14 of layers, 2 of Transformers of 6 + 6
    for (const GoldenCase& one : all) {
        CAPTURE(one.name);
        Recorder recorder;
        one.run(Trace(recorder));
        CHECK(difference(recorder.recording(), one.steps) == "");
        CHECK(verify(recorder.recording()).passed());
    }
}
