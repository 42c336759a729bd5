#include "attn/reference/models/gpt.hpp"

#include "reference/layers/examples.hpp"
#include "step_tables.hpp"
#include "test.hpp"

#include "attn/files/weights/gpt.hpp"
#include "attn/files/weights/state_dict.hpp"
#include "attn/reference/layers/activation.hpp"

using namespace attn;
using namespace attn::files;
using namespace attn::test;

namespace {

GptWeights random_gpt(Numbers& numbers, std::size_t layers = 2)
{
    GptWeights weights{numbers.matrix(7, 6), numbers.matrix(8, 6)};
    for (std::size_t i = 0; i < layers; ++i)
        weights.layers.push_back(random_encoder_layer(numbers));
    weights.norm = random_norm(numbers, 6);
    return weights;
}

} // namespace

TEST_CASE("a GPT is a causal pre-norm encoder between embeddings and the embedding's transpose", "[models][gpt]")
{
    Numbers numbers(1);
    const GptWeights weights = random_gpt(numbers);
    const Integers ids{3, 0, 6, 3};
    Matrix x(Matrix::shape_type{4, 6});
    for (std::size_t i = 0; i < 4; ++i)
        for (std::size_t j = 0; j < 6; ++j)
            x(i, j) = weights.token_embedding(static_cast<std::size_t>(ids(i)), j) + weights.position_embedding(i, j);
    for (const Activation activation : {Activation::relu, Activation::gelu_tanh}) {
        const Matrix tokens = encoder(x, EncoderWeights{weights.layers, weights.norm},
                                      {.attention = {.heads = 3, .causal = Causal::bottom_right},
                                       .feed_forward = {activation},
                                       .norm = {0.25},
                                       .placement = NormPlacement::pre});
        const GptOptions options{.heads = 3, .feed_forward = {activation}, .norm = {0.25}};
        CHECK(close(gpt(ids, weights, options), product_by_hand(tokens, transpose(weights.token_embedding))));
    }
}

TEST_CASE("a GPT whose output map is the embedding's transpose is a tied one", "[models][gpt]")
{
    Numbers numbers(2);
    const GptWeights tied = random_gpt(numbers);
    GptWeights own = tied;
    own.output = transpose(tied.token_embedding);
    CHECK(same_bits(gpt(Integers{1, 2}, tied, {.heads = 2}), gpt(Integers{1, 2}, own, {.heads = 2})));
    own.output = numbers.matrix(6, 9);
    CHECK(shape_of(gpt(Integers{1, 2}, own, {.heads = 2})) == Shape{2, 9});
}

TEST_CASE("a later token changes no earlier logit of a GPT, and the order of tokens matters", "[models][gpt]")
{
    Numbers numbers(3);
    const GptWeights weights = random_gpt(numbers);
    const Matrix before = gpt(Integers{1, 2, 3, 4}, weights, {.heads = 2});
    const Matrix after = gpt(Integers{1, 2, 5, 4}, weights, {.heads = 2});
    CHECK(close(rows_by_hand(before, {0, 1}), rows_by_hand(after, {0, 1})));
    CHECK_FALSE(close(rows_by_hand(before, {2}), rows_by_hand(after, {2})));
    const Matrix swapped = gpt(Integers{2, 1, 3, 4}, weights, {.heads = 2});
    CHECK_FALSE(close(rows_by_hand(before, {3}), rows_by_hand(swapped, {3})));
}

TEST_CASE("a traced GPT gives the same bits, and every formula gives its step", "[models][gpt][trace]")
{
    Numbers numbers(4);
    const GptWeights weights = random_gpt(numbers);
    const Integers ids{1, 5, 2};
    Matrix logits;
    const Recorder steps = recorded([&](const Trace& trace) { logits = gpt(ids, weights, {.heads = 2}, trace); });
    CHECK(same_bits(logits, gpt(ids, weights, {.heads = 2})));
    CHECK(wrong_steps(steps) == Lines{});
    CHECK(count_of(steps, "causal") == 1); // one for all layers and heads
    const Lines listed = with_numbers(promised("reference/models/gpt.hpp", "gpt"), {{"N", "3"}});
    CHECK(listed.size() == 12);
    CHECK(different_rows(listed, steps, "gpt") == "");
}

TEST_CASE("greedy continuation gives, at each step, the word with the largest logit after all words so far",
          "[models][gpt]")
{
    Numbers numbers(5);
    const GptWeights weights = random_gpt(numbers);
    const GptGreedyOptions options{.gpt = {.heads = 2}, .max_tokens = 5};
    std::vector<std::int64_t> ids{4, 1}, expected;
    for (int i = 0; i < 5; ++i) {
        Integers so_far(Integers::shape_type{ids.size()});
        std::ranges::copy(ids, so_far.begin());
        const Matrix logits = gpt(so_far, weights, {.heads = 2});
        std::int64_t best = 0;
        for (std::size_t j = 1; j < 7; ++j)
            if (logits(ids.size() - 1, j) > logits(ids.size() - 1, static_cast<std::size_t>(best)))
                best = static_cast<std::int64_t>(j);
        ids.push_back(best);
        expected.push_back(best);
    }
    Integers found;
    const Recorder steps = recorded([&](const Trace& trace) {
        found = continue_greedily(Integers{4, 1}, weights, options, trace);
    });
    CHECK(std::vector<std::int64_t>(found.begin(), found.end()) == expected);
    CHECK(wrong_steps(steps) == Lines{});
    const Lines rows = promised("reference/models/gpt.hpp", "continue_greedily");
    REQUIRE(rows.size() == 2);
    for (const std::string& row : rows)
        CHECK(std::ranges::count(kept(steps), row) == 1);

    GptGreedyOptions ending = options;
    ending.end = expected[0];
    CHECK(continue_greedily(Integers{4, 1}, weights, ending).size() == 1);
    ending = options;
    ending.max_tokens = 100; // eight positions: the last of them predicts one more token
    CHECK(continue_greedily(Integers{4, 1}, weights, ending).size() == 7);
    ending.max_tokens = 0;
    CHECK(continue_greedily(Integers{4, 1}, weights, ending).size() == 0);
    CHECK_THROWS_WITH(continue_greedily(Integers(Integers::shape_type{0}), weights, options),
                      ContainsSubstring("prompt (0,) has no token"));
}

TEST_CASE("a GPT refuses ids and weights that do not fit", "[models][gpt]")
{
    Numbers numbers(6);
    GptWeights weights = random_gpt(numbers);
    CHECK_THROWS_WITH(gpt(Integers{7}, weights, {.heads = 2}), ContainsSubstring("ids[0] is 7, but table (7, 6)"));
    CHECK_THROWS_WITH(gpt(Integers{0, 0, 0, 0, 0, 0, 0, 0, 0}, weights, {.heads = 2}),
                      ContainsSubstring("table (8, 6) has no rows 0 to 9"));
    CHECK_THROWS_WITH(gpt(Integers{1}, weights, {.heads = 4}), ContainsSubstring("can't be divided evenly"));
    weights.output = numbers.matrix(5, 7);
    CHECK_THROWS_WITH(gpt(Integers{1}, weights, {.heads = 2}), ContainsSubstring("output weights (5, 7)"));
    weights.position_embedding = numbers.matrix(8, 5);
    CHECK_THROWS_WITH(gpt(Integers{1}, weights, {.heads = 2}),
                      ContainsSubstring("token_embedding (7, 6) and position_embedding (8, 5) must agree in d_model"));
}

TEST_CASE("a GPT's weights come back as they were written", "[weights][gpt]")
{
    Numbers numbers(7);
    GptWeights weights = random_gpt(numbers, 3);
    for (const bool is_tied : {true, false}) {
        if (!is_tied)
            weights.output = numbers.matrix(6, 7);
        const NamedArrays arrays = state_dict(weights);
        CHECK(arrays.contains("lm_head.weight") != is_tied);
        const GptWeights back = load_weights<GptWeights>(arrays, {});
        CHECK(back.layers.size() == 3);
        CHECK(same_bits(gpt(Integers{1, 2}, back, {.heads = 2}), gpt(Integers{1, 2}, weights, {.heads = 2})));
    }
    NamedArrays arrays = state_dict(weights);
    arrays.erase("layers.1.norm1.weight");
    CHECK_THROWS_WITH(load_weights<GptWeights>(arrays, {}),
                      ContainsSubstring("a decoder like GPT-2") && ContainsSubstring("layers.1.norm1.weight"));
}
