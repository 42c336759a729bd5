#include "attn/reference/models/greedy_decode.hpp"

#include "reference/layers/decoder_examples.hpp"
#include "masked.hpp"
#include "test.hpp"

#include "attn/core/shape.hpp"
#include "attn/reference/ops/concat.hpp"

#include <algorithm>
#include <set>

using namespace attn;
using namespace attn::test;

namespace {

constexpr std::size_t words = 7;

TranslatorWeights random_translator(std::uint64_t seed, bool has_norm = false)
{
    Numbers numbers(seed);
    Matrix table = numbers.matrix(words, 6);
    return {std::move(table), random_transformer(numbers, 2, has_norm)};
}

const Integers source{3, 5, 2, 6};

std::int64_t likeliest_by_hand(const Matrix& logits, std::size_t row)
{
    std::size_t best = 0;
    for (std::size_t word = 1; word < logits.shape(1); ++word)
        if (logits(row, word) > logits(row, best))
            best = word;
    return static_cast<std::int64_t>(best);
}

/// What goes in where that was said: shifted right behind the start.
Integers shifted(const Integers& ids, std::int64_t start)
{
    Integers result(Integers::shape_type{ids.size()});
    for (std::size_t i = 0; i < ids.size(); ++i)
        result(i) = i == 0 ? start : ids(i - 1);
    return result;
}

} // namespace

TEST_CASE("the logits of the next word are the Transformer's output, on embedded words, times the table",
          "[layers][translate]")
{
    const TranslatorWeights weights = random_translator(1);
    const Integers target{0, 4, 4, 2, 1};
    const TransformerOptions options{.attention = {.heads = 2}};
    TransformerOptions causal = options;
    causal.attention.causal = Causal::bottom_right;
    const Matrix output =
        transformer(embed(source, weights.table), embed(target, weights.table), weights.transformer, causal);
    Matrix found;
    const Recorder steps =
        recorded([&](const Trace& trace) { found = predict_next(source, target, weights, options, trace); });
    CHECK(close(found, product_by_hand(output, transpose_by_hand(weights.table))));
    CHECK(same_bits(found, predict_next(source, target, weights, options)));
    CHECK(wrong_steps(steps) == std::vector<std::string>{});
    CHECK(count_of(steps, "table") == 1); // the same at both ends
}

TEST_CASE("a later target word changes no earlier prediction", "[layers][translate][mask]")
{
    const TranslatorWeights weights = random_translator(2);
    const Matrix before = predict_next(source, Integers{0, 4, 3, 2}, weights, {.attention = {.heads = 2}});
    const Matrix after = predict_next(source, Integers{0, 4, 3, 6}, weights, {.attention = {.heads = 2}});
    CHECK(close(rows_by_hand(before, {0, 1, 2}), rows_by_hand(after, {0, 1, 2}), 0));
    CHECK_FALSE(close(rows_by_hand(before, {3}), rows_by_hand(after, {3})));
    const Matrix of_another =
        predict_next(Integers{3, 5, 2, 1}, Integers{0, 4, 3, 2}, weights, {.attention = {.heads = 2}});
    CHECK_FALSE(close(rows_by_hand(before, {0}), rows_by_hand(of_another, {0})));
}

TEST_CASE("greedy decoding gives the words that are most probable under teacher forcing, with a cache and without",
          "[layers][translate]")
{
    std::set<std::int64_t> said;
    for (std::uint64_t seed = 0; seed < 12; ++seed)
        for (const NormPlacement placement : {NormPlacement::post, NormPlacement::pre}) {
            CAPTURE(seed, placement == NormPlacement::pre);
            const TranslatorWeights weights = random_translator(seed, placement == NormPlacement::pre);
            GreedyOptions options{.transformer = {.attention = {.heads = 3}, .placement = placement},
                                  .start = 2,
                                  .end = 5,
                                  .max_tokens = 6};
            const Translation kept = greedy_decode(source, weights, options);
            options.caching = Caching::none;
            const Translation plain = greedy_decode(source, weights, options);
            CHECK(same_bits(kept.ids, plain.ids));
            CHECK(close(kept.logits, plain.logits, 1e-11));

            const Matrix forced = predict_next(source, shifted(kept.ids, 2), weights, options.transformer);
            CHECK(close(kept.logits, forced, 1e-11));
            for (std::size_t i = 0; i < kept.ids.size(); ++i) {
                CHECK(kept.ids(i) == likeliest_by_hand(forced, i));
                CHECK((kept.ids(i) != 5 || i + 1 == kept.ids.size())); // the end ends it
                CHECK((kept.ids(i) == 5 || i + 1 < kept.ids.size() || kept.ids.size() == 6));
                said.insert(kept.ids(i));
            }
        }
    CHECK(said.size() > 3); // not one word for ever
}

TEST_CASE("tracing changes no word of a translation, and every formula of every token is right",
          "[layers][translate][trace]")
{
    const TranslatorWeights weights = random_translator(5);
    for (const Caching caching : {Caching::none, Caching::keys_and_values}) {
        const GreedyOptions options{.transformer = {.attention = {.heads = 2}}, .max_tokens = 4, .caching = caching};
        Translation found;
        const Recorder steps =
            recorded([&](const Trace& trace) { found = greedy_decode(source, weights, options, trace); });
        const Translation expected = greedy_decode(source, weights, options);
        CHECK(same_bits(found.ids, expected.ids));
        CHECK(same_bits(found.logits, expected.logits));
        CHECK(wrong_steps(steps) == std::vector<std::string>{});
        CHECK(count_of(steps, "next_id") == found.ids.size());
        // Where a cached tensor comes from is in its formula: nothing but weights and numbers given is without one.
        for (const Step& step : steps.steps())
            if (step.formula.empty()) {
                CAPTURE(step.path);
                const bool is_weight =
                    step.path.ends_with("_weights") || step.path.ends_with("bias") || step.path.ends_with("gain");
                CHECK((is_weight || step.path == "table" || step.path == "source_ids" ||
                       step.path == "steps.0.embedding.ids"));
            }
    }
}

TEST_CASE("a translation ends with the end token, or after max_tokens words", "[layers][translate]")
{
    const TranslatorWeights weights = random_translator(7);
    GreedyOptions options{.transformer = {.attention = {.heads = 2}}, .end = 100, .max_tokens = 5};
    const Translation five = greedy_decode(source, weights, options);
    CHECK(five.ids.size() == 5);
    CHECK(shape_of(five.logits) == Shape{5, words});
    options.end = five.ids(0);
    CHECK(same_bits(greedy_decode(source, weights, options).ids, Integers{five.ids(0)}));
    options.max_tokens = 0;
    CHECK(greedy_decode(source, weights, options).ids.size() == 0);
}

TEST_CASE("a translation refuses words that are not in the table", "[layers][translate]")
{
    const TranslatorWeights weights = random_translator(8);
    CHECK_THROWS_AS(predict_next(Integers{7}, Integers{0}, weights), ShapeError);
    CHECK_THROWS_AS(greedy_decode(source, weights, {.start = 7}), ShapeError);
}

TEST_CASE("a translation does not attend to a source's padding", "[layers][translate][mask]")
{
    const TranslatorWeights weights = random_translator(9);
    const Mask first_two = std::get<Mask>(*join_masks(4, 4, {.given = Mask(Mask::shape_type{4, 4}, true)}));
    Mask padded = first_two;
    for (std::size_t i = 0; i < 4; ++i)
        padded(i, 2) = padded(i, 3) = false;
    const GreedyOptions options{.max_tokens = 1};
    const Matrix before = greedy_decode(source, weights, masked_source(options, padded)).logits;
    CHECK_FALSE(close(before, greedy_decode(source, weights, options).logits));
}
