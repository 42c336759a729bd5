#include "attn/reference/models/greedy_decode.hpp"

#include "predict.hpp"

#include "attn/core/shape.hpp"
#include "attn/reference/layers/decoder_cache.hpp"
#include "attn/reference/ops/concat.hpp"

#include <string>

namespace attn {
namespace {

/// What one step after the other needs.
struct Decoding {
    const DecoderWeights& weights;
    const Matrix& table;
    const DecoderOptions options;
    const Matrix& memory;
    Integers ids;       ///< the start and the tokens so far
    DecoderCache cache; ///< of all but the last of them; empty without one
};

std::string step_name(std::size_t i) { return "steps." + std::to_string(i); }

/// The embedded newest token, or all tokens so far, in the scope embedding of a step.
/// @param formula  of the ids
Matrix embed_ids(Integers& ids, const std::string& formula, const Matrix& table, std::size_t first, const Trace& token)
{
    const Trace trace = token.scope("embedding");
    ids = trace("ids[n]", formula, ids);
    return embed(ids, table, {.positions = {.first = first}}, trace);
}

/// Says where the cache of a step comes from.
void name_cache(const DecoderCache& cache, std::size_t i, const Trace& decoder)
{
    for (std::size_t l = 0; l < cache.layers.size(); ++l) {
        const std::string layer = ".layers." + std::to_string(l);
        const Trace inside = decoder.scope("layers", l);
        const Trace self_attn = inside.scope("self_attn"), cross_attn = inside.scope("cross_attn");
        if (i > 0) {
            const std::string before = step_name(i - 1) + ".decoder" + layer + ".self_attn.";
            self_attn.alias("past_keys", before + "cache_keys");
            self_attn.alias("past_values", before + "cache_values");
        }
        cross_attn.alias("key", "cache" + layer + ".cross_attn.key");
        cross_attn.alias("value", "cache" + layer + ".cross_attn.value");
    }
}

/// The decoder on the newest token, whose keys and values are added to the cache.
Matrix decode_newest(Decoding& decoding, std::size_t i, const Trace& token)
{
    Integers newest{decoding.ids(i)};
    const std::string formula = i == 0 ? "" : "reshape(" + step_name(i - 1) + ".next_id, 1)";
    const Matrix x = embed_ids(newest, formula, decoding.table, i, token);
    const Trace trace = token.scope("decoder", {{"x", "embedding.output"}});
    if (trace.has_listener())
        name_cache(decoding.cache, i, trace);
    DecoderStep step = decoder_step(x, decoding.cache, decoding.weights, decoding.options, trace);
    decoding.cache = std::move(step.cache);
    return step.output;
}

/// The decoder on all tokens so far, once more.
Matrix decode_all(Decoding& decoding, std::size_t i, const Trace& token)
{
    const std::string before = i == 0 ? "" : step_name(i - 1);
    const std::string formula =
        i == 0 ? "" : "concat(" + before + ".embedding.ids, reshape(" + before + ".next_id, 1), axis=0)";
    const Matrix x = embed_ids(decoding.ids, formula, decoding.table, 0, token);
    const Trace trace = token.scope("decoder", {{"x", "embedding.output"}, {"memory", "encoder.output"}});
    DecoderOptions causal = decoding.options;
    causal.attention.causal = Causal::bottom_right;
    return decoder(x, decoding.memory, decoding.weights, causal, trace);
}

/// The logits of a step or of a whole target, in the scope generator.
Matrix logits_of(const Matrix& x, std::string_view name, const Matrix& table, const Trace& caller)
{
    const Trace trace = caller.scope("generator", {{"x", name}});
    return unembed(x, table, trace);
}

/// A cache before the first token, where one is asked for.
DecoderCache start_cache(const Matrix& memory, const DecoderWeights& weights, Caching caching, const Trace& caller)
{
    if (caching == Caching::none)
        return {};
    const Trace trace = caller.scope("cache", {{"memory", "encoder.output"}});
    return start_decoder_cache(memory, weights, trace);
}

void expect_masks_of_source(const TransformerOptions& options)
{
    const MultiHeadOptions& of_target = options.attention;
    if (of_target.mask || of_target.bias || options.memory_mask || options.memory_bias)
        throw Error(
            "greedy_decode: a mask or a bias is given for the target or the memory, expected one for the source at "
            "most: there are more tokens of the target at each step");
}

StepOptions describe(const GreedyOptions& options)
{
    return {{"start", std::to_string(options.start)},
            {"end", std::to_string(options.end)},
            {"max_tokens", std::to_string(options.max_tokens)},
            {"caching", options.caching == Caching::none ? "none" : "keys_and_values"}};
}

} // namespace

Matrix predict_next(const Integers& given_source, const Integers& given_target, const TranslatorWeights& weights,
                    const TransformerOptions& options, const Trace& caller)
{
    const Trace trace = caller.module("predict_next");
    const Matrix& table = trace.input("table[vocabulary, d_model]", weights.table);
    const Integers& source_ids = trace.input("source_ids[m]", given_source);
    const Integers& target_ids = trace.input("target_ids[n]", given_target);

    // Embed source and target with the same table.
    const Trace of_source = trace.scope("source_embedding", {{"ids", "source_ids"}});
    const Matrix source = embed(source_ids, table, {}, of_source);
    const Trace of_target = trace.scope("target_embedding", {{"ids", "target_ids"}});
    const Matrix target = embed(target_ids, table, {}, of_target);
    trace.alias("source", "source_embedding.output");
    trace.alias("target", "target_embedding.output");

    // No token sees the one that is to be predicted from it.
    TransformerOptions causal = options;
    causal.attention.causal = Causal::bottom_right;
    const Matrix output = transformer(source, target, weights.transformer, causal, trace);

    // Compare the result with every word.
    Matrix logits = logits_of(output, "output", table, trace);
    trace.alias("logits", "generator.logits");
    return logits;
}

Translation greedy_decode(const Integers& given_source, const TranslatorWeights& weights, const GreedyOptions& options,
                          const Trace& caller)
{
    expect_masks_of_source(options.transformer);
    const Trace trace = caller.module("greedy_decode", [&] { return describe(options); });
    const Matrix& table = trace.input("table[vocabulary, d_model]", weights.table);
    const Integers& source_ids = trace.input("source_ids[m]", given_source);

    // Encode the source once.
    const Trace of_source = trace.scope("source_embedding", {{"ids", "source_ids"}});
    const Matrix source = embed(source_ids, table, {}, of_source);
    const Trace of_encoder = trace.scope("encoder", {{"x", "source_embedding.output"}});
    const Matrix memory =
        encoder(source, weights.transformer.encoder, encoder_options(options.transformer), of_encoder);

    // Decode token by token: the last row of the logits gives the next one.
    const DecoderWeights& decoder = weights.transformer.decoder;
    Decoding decoding{decoder,
                      table,
                      decoder_options(options.transformer),
                      memory,
                      Integers{options.start},
                      start_cache(memory, decoder, options.caching, trace)};
    Translation result{Integers(Integers::shape_type{0}), Matrix(Matrix::shape_type{0, table.shape(0)})};
    for (std::size_t i = 0; i < options.max_tokens; ++i) {
        const Trace token = trace.scope("steps", i);
        const Matrix output =
            options.caching == Caching::none ? decode_all(decoding, i, token) : decode_newest(decoding, i, token);
        const Matrix logits = logits_of(output, "decoder.output", table, token);
        const std::int64_t next = likeliest_next(logits, "generator.logits", token);
        result.logits = concat_rows(result.logits, last_row(logits));
        result.ids = concat(result.ids, Integers{next});
        decoding.ids = concat(decoding.ids, Integers{next});
        if (next == options.end)
            break;
    }
    return result;
}

} // namespace attn
