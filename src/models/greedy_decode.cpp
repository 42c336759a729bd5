#include "attn/models/greedy_decode.hpp"

#include "attn/layers/decoder_cache.hpp"
#include "attn/ops/concat.hpp"
#include "attn/shape.hpp"

#include <algorithm>
#include <string>

namespace attn {
namespace {

void expect_no_mask(std::string_view function, std::string_view role, const std::optional<AnyMask>& mask)
{
    if (mask)
        throw Error(std::string(function) + ": a " + std::string(role) + " mask is given, expected none: " +
                    (role == "target" ? "it is causal" : "the target's length changes"));
}

/// Embeds ids in a scope of their own, where they are named by what they come from.
Matrix embed_as(std::string_view scope, std::string_view from, const Vector& ids, const Matrix& table,
                const EmbeddingOptions& options, const Trace& caller)
{
    const Trace trace = caller.scope(scope);
    return embed(trace("ids[n]", from, ids), table, options, trace);
}

Matrix logits_of(std::string_view from, const Matrix& x, const Matrix& table, const Trace& caller)
{
    const Trace trace = caller.scope("generator");
    return unembed(trace("x[n, d_model]", from, x), table, trace);
}

// ------------------------------------------------------------------------------------------------------ token by token

std::string number(std::size_t i) { return std::to_string(i); }

Matrix last_row(const Matrix& rows) { return xt::view(rows, xt::range(rows.shape(0) - 1, rows.shape(0)), xt::all()); }

/// The likeliest id; the lowest of several.
double likeliest(const Matrix& logits)
{
    const double* last = logits.data() + (logits.shape(0) - 1) * logits.shape(1);
    return static_cast<double>(std::max_element(last, last + logits.shape(1)) - last);
}

/// What writing one token after the other goes by.
struct Writing {
    const TranslatorWeights& weights;
    const DecoderOptions& options;
    const Matrix& memory;
    Vector ids;         ///< start token and what has been said
    DecoderCache cache; ///< of all but the last of ids; empty without one
};

/// Says where the cache of a token comes from.
void name_cache(const Writing& writing, std::size_t i, const Trace& decoder)
{
    const auto name = [&](const Trace& scope, std::string_view step, const std::string& from, const Matrix& kept) {
        scope(step, from, kept);
    };
    for (std::size_t l = 0; l < writing.cache.layers.size(); ++l) {
        const auto& [tokens, memory] = writing.cache.layers[l];
        const std::string layer = "layers." + number(l);
        const std::string before = i == 0 ? "" : "steps." + number(i - 1) + ".decoder." + layer + ".self_attn.";
        const Trace inside = decoder.scope("layers", l);
        const Trace self_attn = inside.scope("self_attn"), cross_attn = inside.scope("cross_attn");
        if (i > 0) {
            name(self_attn, "past_keys[past, h_d_k]", before + "cache_keys", tokens->keys);
            name(self_attn, "past_values[past, h_d_v]", before + "cache_values", tokens->values);
        }
        name(cross_attn, "key[m, h_d_k]", "cache." + layer + ".cross_attn.key", memory.keys);
        name(cross_attn, "value[m, h_d_v]", "cache." + layer + ".cross_attn.value", memory.values);
    }
}

/// The decoder on the newest token, which the cache gets longer by.
Matrix decode_newest(Writing& writing, std::size_t i, const Trace& token)
{
    const Vector newest{writing.ids(i)};
    const std::string from = i == 0 ? "" : "reshape(steps." + number(i - 1) + ".next_id, 1)";
    const Matrix embedded =
        embed_as("embedding", from, newest, writing.weights.table, {.positions = {.first = i}}, token);
    const Trace trace = token.scope("decoder");
    const Matrix x = trace("x[n, d_model]", "embedding.output", embedded);
    if (trace.has_listener())
        name_cache(writing, i, trace);
    DecoderStep step = decoder_step(x, writing.cache, writing.weights.transformer.decoder, writing.options, trace);
    writing.cache = std::move(step.cache);
    return step.output;
}

/// The decoder on everything so far, once more.
Matrix decode_all(const Writing& writing, std::size_t i, const Trace& token)
{
    const std::string before = "steps." + number(i - 1);
    const std::string from =
        i == 0 ? "" : "concat(" + before + ".embedding.ids, reshape(" + before + ".next_id, 1), axis=0)";
    const Matrix embedded = embed_as("embedding", from, writing.ids, writing.weights.table, {}, token);
    DecoderOptions options = writing.options;
    const Mask causal = causal_mask(i + 1, i + 1, Causal::bottom_right, token);
    const Trace trace = token.scope("decoder");
    const Matrix x = trace("x[n, d_model]", "embedding.output", embedded);
    const Matrix memory = trace("memory[m, d_memory]", "encoder.output", writing.memory);
    options.attention.mask = trace("mask[n, m]", "causal", causal);
    return decoder(x, memory, writing.weights.transformer.decoder, options, trace);
}

/// Encodes the source.
Matrix read_source(const Vector& source, const TranslatorWeights& weights, const TransformerOptions& options,
                   const Trace& trace)
{
    trace.input("table[vocabulary, d_model]", weights.table);
    trace.input("source_ids[m]", source);
    const Matrix embedded = embed_as("source_embedding", "source_ids", source, weights.table, {}, trace);
    const Trace inside = trace.scope("encoder");
    return encoder(inside("x[n, d_model]", "source_embedding.output", embedded), weights.transformer.encoder,
                   encoder_options(options), inside);
}

/// A cache before the first token, where one is asked for.
DecoderCache start_cache(const Matrix& memory, const TranslatorWeights& weights, Caching caching, const Trace& caller)
{
    if (caching == Caching::none)
        return {};
    const Trace trace = caller.scope("cache");
    return start_decoder_cache(trace("memory[m, d_memory]", "encoder.output", memory), weights.transformer.decoder,
                               trace);
}

StepOptions describe(const GreedyOptions& options)
{
    return {{"start", number(options.start)},
            {"end", number(options.end)},
            {"most", number(options.most)},
            {"caching", options.caching == Caching::none ? "none" : "keys_and_values"}};
}

} // namespace

Matrix predict_next(const Vector& source, const Vector& target, const TranslatorWeights& weights,
                    const TransformerOptions& options, const Trace& caller)
{
    expect_no_mask("predict_next", "target", options.target_mask);
    const Trace trace = caller.module("predict_next");
    trace.input("table[vocabulary, d_model]", weights.table);
    trace.input("source_ids[m]", source);
    trace.input("target_ids[n]", target);

    // Both languages share one table.
    const Matrix x = embed_as("source_embedding", "source_ids", source, weights.table, {}, trace);
    const Matrix y = embed_as("target_embedding", "target_ids", target, weights.table, {}, trace);
    const Matrix embedded_source = trace("source[m, d_model]", "source_embedding.output", x);
    const Matrix embedded_target = trace("target[n, d_model]", "target_embedding.output", y);

    // No token sees the one that it is to predict.
    TransformerOptions causal = options;
    const Mask mask = causal_mask(target.size(), target.size(), Causal::bottom_right, trace);
    causal.target_mask = trace("target_mask[n, m]", "causal", mask);
    const Matrix output = transformer(embedded_source, embedded_target, weights.transformer, causal, trace);

    // What comes out is compared with every word.
    return trace("logits[n, vocabulary]", "generator.logits", logits_of("output", output, weights.table, trace));
}

Translation greedy_decode(const Vector& source, const TranslatorWeights& weights, const GreedyOptions& options,
                               const Trace& caller)
{
    expect_no_mask("greedy_decode", "target", options.transformer.target_mask);
    expect_no_mask("greedy_decode", "memory", options.transformer.memory_mask);
    const Trace trace = caller.module("greedy_decode", [&] { return describe(options); });

    // Read the source once.
    const Matrix memory = read_source(source, weights, options.transformer, trace);
    const DecoderOptions of_decoder = decoder_options(options.transformer);
    Writing writing{weights, of_decoder, memory, Vector{static_cast<double>(options.start)},
                    start_cache(memory, weights, options.caching, trace)};

    // What has been said goes in; the last row of what comes out says what is next.
    Matrix all_logits(Matrix::shape_type{0, weights.table.shape(0)});
    for (std::size_t i = 0; i < options.most; ++i) {
        const Trace token = trace.scope("steps", i);
        const Matrix output =
            options.caching == Caching::none ? decode_all(writing, i, token) : decode_newest(writing, i, token);
        const Matrix logits = logits_of("decoder.output", output, weights.table, token);
        const double next = token(
            "next_id",
            "min(where(generator.logits[-1] == max(generator.logits[-1]), arange(generator.logits.shape[1]), inf))",
            likeliest(logits));
        all_logits = concat_rows(all_logits, last_row(logits));
        writing.ids = concat(writing.ids, Vector{next});
        if (next == static_cast<double>(options.end))
            break;
    }
    return {xt::view(writing.ids, xt::range(std::size_t{1}, writing.ids.size())), all_logits};
}

} // namespace attn
