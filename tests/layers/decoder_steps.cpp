// Step names are API: those of decoders, of whole Transformers, of a cache and of what is written with them.

#include "attn/layers/decoder_cache.hpp"
#include "attn/models/greedy_decode.hpp"

#include "decoder_examples.hpp"
#include "step_tables.hpp"
#include "test.hpp"

using namespace attn;
using namespace attn::test;

namespace {

const Matrix x = Numbers(1).matrix(3, 6), memory = Numbers(2).matrix(4, 6);

/// Only the steps of the layer itself, and those that its blocks are given.
Lines own_steps(const DecoderOptions& options)
{
    Numbers numbers(3);
    const DecoderLayerWeights weights = random_decoder_layer(numbers);
    return kept(recorded([&](const Trace& trace) { decoder_layer(x, memory, weights, options, trace); }),
                "decoder_layer");
}

/// The steps whose paths are in a table, as they were recorded.
Lines listed_steps(const Lines& table, const Recorder& recorder)
{
    Lines result;
    for (const std::string& line : kept(recorder))
        for (const std::string& row : table)
            if (row.substr(0, row.find(" |")) == line.substr(0, line.find(" |")))
                result.push_back(line);
    return result;
}

} // namespace

TEST_CASE("the steps of a decoder layer are those in its doc comment, norms behind or in front",
          "[steps][layers][decoder][source]")
{
    const Lines table = promised("layers/decoder.hpp", "decoder_layer");
    REQUIRE(table.size() == 13);
    CHECK(own_steps({}) == table);
    const std::string n = " | (n, d_model) | ";
    CHECK(own_steps({.placement = NormPlacement::pre}) ==
          Lines{"x" + n, "memory | (m, d_memory) | ", "norm1.x" + n + "x", "self_attn.x" + n + "norm1.output",
                "residual1" + n + "x + self_attn.output", "norm2.x" + n + "residual1",
                "cross_attn.x" + n + "norm2.output", "cross_attn.memory | (m, d_memory) | memory",
                "residual2" + n + "residual1 + cross_attn.output", "norm3.x" + n + "residual2",
                "feed_forward.x" + n + "norm3.output", "output" + n + "residual2 + feed_forward.output"});
}

TEST_CASE("a decoder layer's masks follow its inputs, and cross-attention has its own",
          "[steps][layers][decoder][mask]")
{
    const Lines found = own_steps({.attention = {.mask = causal_mask(3, 3)}, .memory_mask = Numbers(4).mask(3, 4)});
    REQUIRE(found.size() == 16);
    CHECK(found[2] == "mask | (n, m) | ");
    CHECK(found[3] == "memory_mask | (n, m) | ");
    CHECK(std::ranges::find(found, "cross_attn.mask | (n, m) | memory_mask") == found.begin() + 9);
}

TEST_CASE("the steps of a decoder and of a Transformer are those in their doc comments",
          "[steps][layers][decoder][source]")
{
    Numbers numbers(5);
    const TransformerWeights weights = random_transformer(numbers, 2, false);
    const Lines decoding = promised("layers/decoder.hpp", "decoder");
    CHECK(decoding.size() == 5);
    CHECK(decoding ==
          kept(recorded([&](const Trace& trace) { decoder(x, memory, weights.decoder, {}, trace); }), "decoder"));
    const Lines whole = promised("layers/transformer.hpp", "transformer");
    CHECK(whole.size() == 6);
    Lines found =
        kept(recorded([&](const Trace& trace) { transformer(memory, x, weights, {}, trace); }), "transformer");
    for (std::string& line : found) // a stack's own letters: its tokens are n, whoever they are
        if (line.starts_with("encoder.x"))
            line.replace(line.find("(n"), 2, "(m");
        else if (line.starts_with("decoder.memory"))
            line.replace(line.find("d_memory"), 8, "d_model");
    CHECK(found == whole);
}

TEST_CASE("the steps of a cache and of a step with it are those in their doc comments",
          "[steps][layers][decoder][cache][source]")
{
    Numbers numbers(6);
    const DecoderWeights weights = random_decoder(numbers, 1, false);
    DecoderCache cache;
    const Lines start = promised("layers/decoder_cache.hpp", "start_decoder_cache");
    CHECK(start.size() == 7);
    CHECK(start == kept(recorded([&](const Trace& trace) { cache = start_decoder_cache(memory, weights, trace); })));

    const Matrix one = Numbers(7).matrix(1, 6);
    const DecoderStep first = decoder_step(one, cache, weights);
    const auto has = [&](const DecoderCache& past, const std::string& line) {
        const Lines steps = kept(recorded([&](const Trace& trace) { decoder_step(one, past, weights, {}, trace); }));
        return std::ranges::find(steps, line) != steps.end();
    };
    CHECK(has(first.cache, "layers.0.self_attn.past_keys | (past, h_d_k) | "));
    CHECK(
        has(first.cache, "layers.0.self_attn.head.0.keys | (m, d_k) | concat(past_keys[..., 0:6], new_keys, axis=0)"));
    CHECK(has(first.cache, "layers.0.self_attn.cache_values | (m, h_d_v) | concat(head.0.values, axis=-1)"));
    CHECK(has(first.cache, "layers.0.cross_attn.key | (m, h_d_k) | "));
    CHECK(has(cache, "layers.0.self_attn.head.0.keys | (m, d_k) | key[..., 0:6]"));
}

TEST_CASE("the steps of predictions and translations are those in their doc comments",
          "[steps][layers][translate][source]")
{
    Numbers numbers(8);
    const TranslatorWeights weights{numbers.matrix(7, 6), random_transformer(numbers, 1, false)};
    const Vector source{3, 5};
    const Lines predicted = with_numbers(promised("layers/translate.hpp", "predict_next"), {{"N", "3"}});
    CHECK(predicted.size() == 11);
    CHECK(listed_steps(predicted, recorded([&](const Trace& trace) {
                           predict_next(source, Vector{0, 4, 4}, weights, {}, trace);
                       })) == predicted);
    const Lines translated = promised("layers/translate.hpp", "greedy_decode");
    CHECK(translated.size() == 11);
    CHECK(listed_steps(translated, recorded([&](const Trace& trace) {
                           greedy_decode(source, weights, {.end = 100, .most = 2}, trace);
                       })) == translated);
    const Lines second = kept(
        recorded([&](const Trace& trace) { greedy_decode(source, weights, {.end = 100, .most = 2}, trace); }));
    CHECK(std::ranges::find(second, "steps.1.embedding.ids | (n,) | reshape(steps.0.next_id, 1)") != second.end());
    CHECK(std::ranges::find(second, "steps.1.decoder.layers.0.self_attn.past_keys | (past, h_d_k) | "
                                    "steps.0.decoder.layers.0.self_attn.cache_keys") != second.end());
    const Lines without = kept(recorded([&](const Trace& trace) {
        greedy_decode(source, weights, {.end = 100, .most = 2, .caching = Caching::none}, trace);
    }));
    CHECK(std::ranges::find(without,
                            "steps.1.embedding.ids | (n,) | "
                            "concat(steps.0.embedding.ids, reshape(steps.0.next_id, 1), axis=0)") != without.end());
}
