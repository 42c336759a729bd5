#include "attn/reference/models/encoder_decoder.hpp"

namespace attn {
namespace {

/// One model of the two, of a sequence or a batch.
Matrix compute(const Integers& ids, const Padding&, const LanguageModelWeights& weights,
               const LanguageModelDescription& description, const LanguageModelOptions<Integers>& options,
               const Trace& trace)
{
    return language_model(ids, weights, description, options, trace);
}

Tensor3 compute(const IntegerMatrix& ids, const Padding& padding, const LanguageModelWeights& weights,
                const LanguageModelDescription& description, const LanguageModelOptions<IntegerMatrix>& options,
                const Trace& trace)
{
    return language_model(ids, padding, weights, description, options, trace);
}

template <class Source, class Ids>
auto encode_and_decode(const Source& source, const Padding& source_padding, const Ids& ids, const Padding& padding,
                       const EncoderDecoderWeights& weights, const EncoderDecoderDescription& description,
                       const Trace& caller)
{
    const Trace trace = caller.module("encoder_decoder");
    const bool is_shared = std::holds_alternative<std::monostate>(weights.decoder.embedding);
    const Matrix* table = is_shared ? std::get_if<Matrix>(&weights.encoder.embedding) : nullptr;
    if (table != nullptr)
        table = &trace.input("embedding[vocabulary, d_model]", *table);

    // Encode the source.
    const Trace encoder = trace.scope("encoder");
    const auto memory = [&] {
        if constexpr (Sequence<Source>)
            return sound_model(source, weights.encoder, description.encoder, encoder);
        else
            return compute(source, source_padding, weights.encoder, description.encoder, {.embedding = table}, encoder);
    }();

    // Decode the tokens so far, which attend to the encoded source.
    const Trace decoder = trace.scope("decoder");
    decoder.alias("memory", "encoder.output");
    return compute(ids, padding, weights.decoder, description.decoder,
                   {.memory = memory, .memory_padding = source_padding, .embedding = table}, decoder);
}

} // namespace

Matrix encoder_decoder(const Integers& source, const Integers& ids, const EncoderDecoderWeights& weights,
                       const EncoderDecoderDescription& description, const Trace& trace)
{
    return encode_and_decode(source, {}, ids, {}, weights, description, trace);
}

Matrix encoder_decoder(const Matrix& source, const Integers& ids, const EncoderDecoderWeights& weights,
                       const EncoderDecoderDescription& description, const Trace& trace)
{
    return encode_and_decode(source, {}, ids, {}, weights, description, trace);
}

Tensor3 encoder_decoder(const IntegerMatrix& source, const Padding& source_padding, const IntegerMatrix& ids,
                        const Padding& padding, const EncoderDecoderWeights& weights,
                        const EncoderDecoderDescription& description, const Trace& trace)
{
    return encode_and_decode(source, source_padding, ids, padding, weights, description, trace);
}

Tensor3 encoder_decoder(const Tensor3& source, const IntegerMatrix& ids, const Padding& padding,
                        const EncoderDecoderWeights& weights, const EncoderDecoderDescription& description,
                        const Trace& trace)
{
    return encode_and_decode(source, {}, ids, padding, weights, description, trace);
}

} // namespace attn
