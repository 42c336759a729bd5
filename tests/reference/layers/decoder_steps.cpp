// Step names are API: those of decoders, of whole Transformers, of a cache and of what is written with them.

#include "attn/reference/layers/decoder_cache.hpp"
#include "attn/reference/models/greedy_decode.hpp"

#include "decoder_examples.hpp"
#include "masked.hpp"
#include "step_tables.hpp"
#include "test.hpp"

using namespace attn;
using namespace attn::test;

namespace {

const Matrix x = Numbers(1).matrix(3, 6), memory = Numbers(2).matrix(4, 6);

DecoderLayerWeights layer_weights()
{
    Numbers numbers(3);
    return random_decoder_layer(numbers);
}

Lines other_names(const Recorder& recorder)
{
    Lines names;
    for (const Alias& alias : recorder.recording().aliases)
        names.push_back(alias.path + " = " + alias.target);
    return names;
}

bool contains(const Lines& lines, const std::string& line) { return std::ranges::find(lines, line) != lines.end(); }

} // namespace

TEST_CASE("the steps of decoders and of a Transformer are those in their doc comments",
          "[steps][layers][decoder][source]")
{
    Numbers numbers(5);
    const TransformerWeights weights = random_transformer(numbers, 2, false);
    const Lines layer = promised("reference/layers/decoder.hpp", "decoder_layer");
    REQUIRE(layer.size() == 13);
    const auto of_layer = recorded([&](const Trace& trace) { decoder_layer(x, memory, layer_weights(), {}, trace); });
    CHECK(different_rows(layer, of_layer, "decoder_layer") == "");
    const Lines stack = promised("reference/layers/decoder.hpp", "decoder");
    REQUIRE(stack.size() == 5);
    const auto of_stack = recorded([&](const Trace& trace) { decoder(x, memory, weights.decoder, {}, trace); });
    CHECK(different_rows(stack, of_stack, "decoder") == "");
    const Lines whole = promised("reference/models/transformer.hpp", "transformer");
    REQUIRE(whole.size() == 6);
    const Recorder run = recorded([&](const Trace& trace) { transformer(memory, x, weights, {}, trace); });
    CHECK(different_rows(whole, run, "transformer") == "");
}

TEST_CASE("a pre-norm decoder layer normalises before its blocks", "[steps][layers][decoder]")
{
    const Recorder run = recorded([&](const Trace& trace) {
        decoder_layer(x, memory, layer_weights(), {.placement = NormPlacement::pre}, trace);
    });
    CHECK(other_names(run) == Lines{"norm1.x = x", "self_attn.x = norm1.output", "norm2.x = residual1",
                                    "cross_attn.x = norm2.output", "cross_attn.memory = memory", "norm3.x = residual2",
                                    "feed_forward.x = norm3.output"});
    const std::string n = " | (n, d_model) | ";
    for (const std::string& line :
         {"residual1" + n + "x + self_attn.output", "residual2" + n + "residual1 + cross_attn.output",
          "output" + n + "residual2 + feed_forward.output"})
        CHECK(contains(kept(run), line));
}

TEST_CASE("a decoder layer's masks follow its inputs, and cross-attention has its own",
          "[steps][layers][decoder][mask]")
{
    const Recorder run = recorded([&](const Trace& trace) {
        decoder_layer(x, memory, layer_weights(), masked_decoder({}, causal_mask(3, 3), Numbers(4).mask(3, 4)), trace);
    });
    const Lines found = kept(run, "decoder_layer");
    CHECK(found.at(2) == "mask | (n, m) | ");
    CHECK(found.at(3) == "memory_mask | (n, m) | ");
    CHECK(contains(other_names(run), "cross_attn.mask = memory_mask"));
}

TEST_CASE("the steps of a cache and of a step with it are those in their doc comments",
          "[steps][layers][decoder][cache][source]")
{
    Numbers numbers(6);
    const DecoderWeights weights = random_decoder(numbers, 1, false);
    DecoderCache cache;
    const Lines start = promised("reference/layers/decoder_cache.hpp", "start_decoder_cache");
    CHECK(start.size() == 7);
    const auto started = recorded([&](const Trace& trace) { cache = start_decoder_cache(memory, weights, trace); });
    CHECK(different_rows(start, started) == "");

    const Matrix one = Numbers(7).matrix(1, 6);
    const DecoderStep first = decoder_step(one, cache, weights);
    const auto has = [&](const DecoderCache& past, const std::string& line) {
        return contains(kept(recorded([&](const Trace& trace) { decoder_step(one, past, weights, {}, trace); })), line);
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
    const Integers source{3, 5};
    const Lines predicted = with_numbers(promised("reference/models/greedy_decode.hpp", "predict_next"), {{"N", "3"}});
    CHECK(predicted.size() == 11);
    const Recorder predicting = recorded([&](const Trace& trace) {
        predict_next(source, Integers{0, 4, 4}, weights, {}, trace);
    });
    CHECK(different_among(predicted, predicting) == "");
    const auto run_with = [&](Caching caching) {
        const GreedyOptions options{.end = 100, .max_tokens = 2, .caching = caching};
        return recorded([&](const Trace& trace) { greedy_decode(source, weights, options, trace); });
    };
    const Lines translated = promised("reference/models/greedy_decode.hpp", "greedy_decode");
    CHECK(translated.size() == 11);
    const Recorder with = run_with(Caching::keys_and_values), without = run_with(Caching::none);
    CHECK(different_among(translated, with) == "");
    CHECK(contains(kept(with), "steps.1.embedding.ids | (n,) | reshape(steps.0.next_id, 1)"));
    CHECK(contains(other_names(with), "steps.1.decoder.layers.0.self_attn.past_keys = "
                                      "steps.0.decoder.layers.0.self_attn.cache_keys"));
    CHECK(contains(kept(without), "steps.1.embedding.ids | (n,) | "
                                  "concat(steps.0.embedding.ids, reshape(steps.0.next_id, 1), axis=0)"));
}
