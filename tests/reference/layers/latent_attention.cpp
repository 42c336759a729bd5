#include "attn/reference/layers/latent_attention.hpp"

#include "laws.hpp"
#include "masked.hpp"
#include "step_tables.hpp"
#include "caught.hpp"
#include "test.hpp"

#include "attn/core/shape.hpp"
#include "attn/reference/layers/block.hpp"
#include "attn/reference/ops/concat.hpp"

using namespace attn;
using namespace attn::test;

namespace {

constexpr YarnScaling deepseek_yarn{.factor = 4, .original_length = 16, .beta_fast = 4, .beta_slow = 0.5};

/// Tokens of 6 features; heads of 4 + 2 features and values of 3, latents of 5.
LatentAttentionWeights random_latent(Numbers& numbers, bool has_query_latent = true, std::size_t heads = 2,
                                     bool is_biased = true)
{
    const std::size_t d_q = has_query_latent ? 4 : 6;
    LatentAttentionWeights weights{random_linear(numbers, d_q, heads * 6, false),
                                   {random_linear(numbers, 6, 5 + 2, is_biased), {numbers.vector(5)}},
                                   random_linear(numbers, 5, heads * (4 + 3), false),
                                   random_linear(numbers, heads * 3, 6, is_biased)};
    if (has_query_latent)
        weights.query_latent = LatentWeights{random_linear(numbers, 6, d_q, is_biased), {numbers.vector(d_q)}};
    return weights;
}

MultiHeadOptions latent_heads(std::size_t heads = 2, std::optional<Causal> causal = {})
{
    return {.heads = heads, .causal = causal, .positions = HeadPositions::rotary};
}

/// Options of all sorts, for n queries and m keys.
std::vector<MultiHeadOptions> latent_options(Numbers& numbers, std::size_t n, std::size_t m)
{
    std::vector<MultiHeadOptions> all;
    for (const HeadPositions positions : {HeadPositions::none, HeadPositions::rotary, HeadPositions::alibi})
        for (const bool has_mask : {true, false}) {
            MultiHeadOptions options{.heads = 2, .positions = positions};
            if (has_mask)
                options.mask = numbers.mask(n, m);
            all.push_back(options);
        }
    all.push_back(latent_heads(2, Causal::bottom_right));
    all.back().rotary = {.base = 100, .layout = RotaryLayout::halves, .first = 2};
    all.push_back(latent_heads());
    all.back().bias = numbers.matrix(n, m);
    all.back().scale = 0.7;
    all.back().softcap = 1.5;
    return all;
}

template <Sequence T>
bool close_latent(const MultiHeadOf<T>& left, const MultiHeadOf<T>& right, double tolerance = 1e-12)
{
    bool same = close(left.output, right.output, tolerance) && left.weights.size() == right.weights.size();
    for (std::size_t head = 0; same && head < left.weights.size(); ++head)
        same = close(left.weights[head], right.weights[head], tolerance);
    return same;
}

Matrix some_rows(const Matrix& x, std::size_t begin, std::size_t end)
{
    std::vector<std::size_t> order;
    for (std::size_t i = begin; i < end; ++i)
        order.push_back(i);
    return rows_by_hand(x, order);
}

/// The message of the error that attention by these weights ends with.
template <class Change>
std::string latent_refusal(const LatentAttentionWeights& right, const Change& change, const MultiHeadOptions& options)
{
    LatentAttentionWeights weights = right;
    change(weights);
    return caught<Error>([&] { latent_attention(Matrix(Matrix::shape_type{3, 6}, 1.0), weights, options); });
}

} // namespace

TEST_CASE("latent attention is multi-head attention whose keys and values are made of the latent and the shared key",
          "[layers][latent_attention]")
{
    Numbers numbers(1);
    const Matrix x = numbers.matrix(4, 6);
    for (const bool has_query_latent : {true, false})
        for (const std::size_t heads : {1, 2, 3}) {
            CAPTURE(has_query_latent, heads);
            const LatentAttentionWeights weights = random_latent(numbers, has_query_latent, heads);
            Matrix of_query = x;
            if (has_query_latent)
                of_query = rms_norm(linear_by_hand(x, weights.query_latent->down), weights.query_latent->norm);
            const Matrix query = linear_by_hand(of_query, weights.query),
                         compressed = linear_by_hand(x, weights.latent.down),
                         latent = rms_norm(columns_by_hand(compressed, 0, 5), weights.latent.norm),
                         shared_key = rotary(columns_by_hand(compressed, 5, 7)),
                         key_value = linear_by_hand(latent, weights.key_value);
            const MultiHead found = latent_attention(x, weights, latent_heads(heads));
            REQUIRE(found.weights.size() == heads);
            std::vector<Matrix> contexts;
            for (std::size_t i = 0; i < heads; ++i) {
                const Matrix of_head = columns_by_hand(query, 6 * i, 6 * i + 6);
                const Matrix queries =
                    concat_columns({columns_by_hand(of_head, 0, 4), rotary(columns_by_hand(of_head, 4, 6))});
                const Matrix keys = concat_columns({columns_by_hand(key_value, 7 * i, 7 * i + 4), shared_key});
                const Attention expected =
                    attention_by_hand(queries, keys, columns_by_hand(key_value, 7 * i + 4, 7 * i + 7));
                CHECK(close(found.weights[i], expected.weights));
                contexts.push_back(expected.context);
            }
            CHECK(close(found.output, linear_by_hand(concat_columns(contexts), weights.output)));
        }
}

TEST_CASE("absorbed maps give the same numbers: outputs, and the weights of every head",
          "[layers][latent_attention][property]")
{
    Numbers numbers(2);
    const Matrix x = numbers.matrix(4, 6);
    const Tensor3 batch = numbers.tensor3(2, 4, 6);
    for (const bool has_query_latent : {true, false})
        for (const MultiHeadOptions& options : latent_options(numbers, 4, 4)) {
            CAPTURE(has_query_latent, name_of(options.positions), options.mask.has_value());
            const LatentAttentionWeights weights = random_latent(numbers, has_query_latent);
            CHECK(close_latent(absorbed_latent_attention(x, weights, options), latent_attention(x, weights, options)));
            CHECK(close_latent(absorbed_latent_attention(batch, weights, options),
                               latent_attention(batch, weights, options)));
        }
}

TEST_CASE("with a cache of latents, tokens one by one or some at a time give what all at once do",
          "[layers][latent_attention][cache]")
{
    Numbers numbers(3);
    const Matrix x = numbers.matrix(5, 6);
    const LatentAttentionWeights weights = random_latent(numbers);
    for (const HeadPositions positions : {HeadPositions::none, HeadPositions::rotary, HeadPositions::alibi})
        for (const std::size_t at_a_time : {1, 2, 5})
            for (const bool is_absorbed : {true, false}) {
                CAPTURE(name_of(positions), at_a_time, is_absorbed);
                MultiHeadOptions options = latent_heads(2, Causal::bottom_right);
                options.positions = positions;
                options.rotary.first = 3;
                Matrix output(Matrix::shape_type{0, 6});
                PastLatents<Matrix> past;
                for (std::size_t begin = 0; begin < 5; begin += at_a_time) {
                    const Matrix added = some_rows(x, begin, std::min<std::size_t>(begin + at_a_time, 5));
                    auto step = is_absorbed ? cached_absorbed_latent_attention(added, past, weights, options)
                                            : cached_latent_attention(added, past, weights, options);
                    output = concat_rows(output, step.output);
                    past = step.cache;
                }
                CHECK(close(output, latent_attention(x, weights, options).output));
                CHECK(shape_of(past->latent) == Shape{5, 5});
                CHECK(shape_of(past->shared_key) == Shape{5, 2});
            }
}

TEST_CASE("a batch with a cache gives what each of its sequences gives", "[layers][latent_attention][cache][batch]")
{
    Numbers numbers(4);
    const Tensor3 x = numbers.tensor3(2, 3, 6), before = numbers.tensor3(2, 2, 6);
    const LatentAttentionWeights weights = random_latent(numbers);
    const MultiHeadOptions options = latent_heads(2, Causal::bottom_right);
    const auto past = cached_latent_attention(before, {}, weights, options).cache;
    const auto all = cached_absorbed_latent_attention(x, past, weights, options);
    for (std::size_t b = 0; b < 2; ++b) {
        const LatentCache own{sequence_by_hand(past.latent, b), sequence_by_hand(past.shared_key, b)};
        const auto alone = cached_latent_attention(sequence_by_hand(x, b), own, weights, options);
        CHECK(close(sequence_by_hand(all.output, b), alone.output));
        CHECK(close(sequence_by_hand(all.cache.latent, b), alone.cache.latent));
        CHECK(close(sequence_by_hand(all.cache.shared_key, b), alone.cache.shared_key));
        CHECK(close(sequence_by_hand(all.weights[1], b), alone.weights[1]));
    }
}

TEST_CASE("latent attention depends on the distances of tokens, not on where the first one stands",
          "[layers][latent_attention][property]")
{
    Numbers numbers(5);
    const Matrix x = numbers.matrix(4, 6);
    const LatentAttentionWeights weights = random_latent(numbers);
    const auto from_place = [&](std::size_t first) {
        MultiHeadOptions options = latent_heads();
        options.rotary.first = first;
        return latent_attention(x, weights, options);
    };
    CHECK(close_latent(from_place(0), from_place(17)));
    CHECK_FALSE(close(from_place(0).output, latent_attention(x, weights, {.heads = 2}).output));
}

TEST_CASE("traced latent attention gives the same bits, and every formula holds", "[layers][latent_attention][trace]")
{
    Numbers numbers(6);
    const Matrix x = numbers.matrix(3, 6);
    const Tensor3 batch = numbers.tensor3(2, 3, 6);
    for (const bool has_query_latent : {true, false})
        for (const MultiHeadOptions& options : latent_options(numbers, 3, 3)) {
            CAPTURE(has_query_latent, name_of(options.positions), options.mask.has_value());
            const LatentAttentionWeights weights = random_latent(numbers, has_query_latent);
            const auto check = [&](const auto& tokens) {
                traced([&](const Trace& trace) { return latent_attention(tokens, weights, options, trace); });
                traced([&](const Trace& trace) { return absorbed_latent_attention(tokens, weights, options, trace); });
            };
            check(x);
            check(batch);
        }
}

TEST_CASE("traced latent attention with a cache gives the same bits, and every formula holds",
          "[layers][latent_attention][trace][cache]")
{
    Numbers numbers(7);
    const Tensor3 x = numbers.tensor3(2, 3, 6), before = numbers.tensor3(2, 2, 6);
    const LatentAttentionWeights weights = random_latent(numbers, false);
    for (const MultiHeadOptions& options : latent_options(numbers, 3, 5)) {
        MultiHeadOptions open = options;
        open.mask = {};
        open.bias = {};
        const auto past = cached_latent_attention(before, {}, weights, open).cache;
        traced([&](const Trace& trace) { return cached_absorbed_latent_attention(x, past, weights, options, trace); });
        CHECK(close(cached_absorbed_latent_attention(x, past, weights, options).output,
                    cached_latent_attention(x, past, weights, options).output));
    }
}

TEST_CASE("the doc comments of latent attention list its steps", "[layers][latent_attention][steps][source]")
{
    Numbers numbers(8);
    const Matrix x = numbers.matrix(3, 6);
    LatentAttentionWeights weights = random_latent(numbers, false, 1, false);
    weights.latent = {random_linear(numbers, 6, 3 + 2, false), {numbers.vector(3)}};
    weights.key_value = random_linear(numbers, 3, 7, false);
    const MultiHeadOptions options = latent_heads(1);
    const std::string header = "reference/layers/latent_attention.hpp";

    const Recorder plain = recorded([&](const Trace& trace) { latent_attention(x, weights, options, trace); });
    const Lines of_plain = promised(header, "latent_attention");
    REQUIRE(of_plain.size() == 22);
    CHECK(different_among(of_plain, plain) == "");

    const Recorder absorbed =
        recorded([&](const Trace& trace) { absorbed_latent_attention(x, weights, options, trace); });
    const Lines of_absorbed = promised(header, "absorbed_latent_attention");
    REQUIRE(of_absorbed.size() == 17);
    CHECK(different_among(of_absorbed, absorbed) == "");

    const auto past = cached_latent_attention(x, {}, weights, options).cache;
    const Recorder cached =
        recorded([&](const Trace& trace) { cached_latent_attention(x, past, weights, options, trace); });
    const Lines of_cached = promised(header, "cached_latent_attention");
    REQUIRE(of_cached.size() == 6);
    CHECK(different_among(of_cached, cached) == "");
    CHECK(plain.steps().back().options ==
          StepOptions{
              {"heads", "1"}, {"mask", "none"}, {"bias", "none"}, {"scale", "1/sqrt(d_k)"}, {"positions", "rotary"}});
}

TEST_CASE("the scale of latent attention has mscale squared where a YaRN scaling has mscale_all_dim",
          "[layers][latent_attention]")
{
    YarnScaling scaling = deepseek_yarn;
    CHECK(!latent_attention_scale(scaling, 6));
    CHECK(!latent_attention_scale(LinearScaling{4}, 6));
    CHECK(!latent_attention_scale({}, 6));
    scaling.mscale_all_dim = 0;
    CHECK(!latent_attention_scale(scaling, 6));
    scaling = {.factor = 40, .original_length = 4096, .mscale = 1, .mscale_all_dim = 1};
    CHECK(latent_attention_scale(scaling, 192).value() == Approx(0.1352337788608801).epsilon(1e-13)); // DeepSeek-V3's
    scaling.factor = 0.5;
    CHECK(!latent_attention_scale(scaling, 6));
}

TEST_CASE("latent attention refuses tokens, weights and caches that disagree", "[layers][latent_attention]")
{
    Numbers numbers(9);
    const LatentAttentionWeights right = random_latent(numbers);
    const MultiHeadOptions two = latent_heads();
    const auto nothing = [](LatentAttentionWeights&) {};
    CHECK_THROWS_WITH(
        latent_attention(numbers.matrix(3, 5), right, two),
        ContainsSubstring("latent_attention: x (3, 5) and query latent weights (6, 4) must agree in d_model"));
    CHECK_THAT(latent_refusal(
                   right, [](auto& w) { w.query_latent.reset(); }, two),
               ContainsSubstring("x (3, 6) and query weights (4, 12) must agree in d_model"));
    CHECK_THAT(latent_refusal(
                   right, [&](auto& w) { w.query_latent->norm.gain = numbers.vector(3); }, two),
               ContainsSubstring("query latent weights (6, 4) and query norm (3,) must agree in d_q"));
    CHECK_THAT(latent_refusal(
                   right, [&](auto& w) { w.latent.down = random_linear(numbers, 5, 7); }, two),
               ContainsSubstring("x (3, 6) and compressed weights (5, 7) must agree in d_model"));
    CHECK_THAT(latent_refusal(
                   right, [&](auto& w) { w.latent.norm.gain = numbers.vector(4); }, two),
               ContainsSubstring("latent norm (4,) and key_value weights (5, 14) must agree in d_c"));
    CHECK(latent_refusal(right, nothing, latent_heads(5)) ==
          "latent_attention: query weights (4, 12) can't be divided evenly among 5 heads");
    CHECK(latent_refusal(right, nothing, latent_heads(4)) ==
          "latent_attention: key_value weights (5, 14) can't be divided evenly among 4 heads");
    CHECK(latent_refusal(
              right, [&](auto& w) { w.latent.down = random_linear(numbers, 6, 5); }, two) ==
          "latent_attention: compressed weights (6, 5) have 5 columns, and none is left for the rotary key after the 5 "
          "of the latent");
    CHECK(latent_refusal(
              right, [&](auto& w) { w.query = random_linear(numbers, 4, 4); }, two) ==
          "latent_attention: query weights (4, 4) have 2 columns for each head, and none is left for the latent's keys "
          "after the 2 that are rotated");
    CHECK(latent_refusal(
              right, [&](auto& w) { w.key_value = random_linear(numbers, 5, 8); }, two) ==
          "latent_attention: key_value weights (5, 8) have 4 columns for each head, and none is left for the value "
          "after the 4 of the key");
    CHECK(latent_refusal(
              right, [&](auto& w) { w.output = random_linear(numbers, 7, 6); }, two) ==
          "latent_attention: key_value weights (5, 14) give 2 values of 3 features, which must be the rows of the "
          "output weights (7, 6)");
    MultiHeadOptions twice{.heads = 2, .bias = numbers.matrix(3, 3), .positions = HeadPositions::alibi};
    CHECK_THAT(latent_refusal(right, nothing, twice), ContainsSubstring("ALiBi is a bias"));
    MultiHeadOptions masked = two;
    masked.mask = Mask(Mask::shape_type{3, 4}, true);
    CHECK_THAT(latent_refusal(right, nothing, masked), ContainsSubstring("mask (3, 4)"));

    LatentAttentionWeights biased = right;
    biased.key_value = random_linear(numbers, 5, 14);
    const Matrix x = numbers.matrix(3, 6);
    CHECK_THROWS_WITH(absorbed_latent_attention(x, biased, two), ContainsSubstring("which can't be absorbed"));
    CHECK_THROWS_WITH(cached_absorbed_latent_attention(x, {}, biased, two),
                      ContainsSubstring("which can't be absorbed"));

    const auto with_past = [&](const Matrix& latent, const Matrix& key) {
        return cached_latent_attention(x, LatentCache{latent, key}, right, two);
    };
    CHECK_THROWS_WITH(with_past(numbers.matrix(2, 4), numbers.matrix(2, 2)),
                      ContainsSubstring("past latent (2, 4) and latent norm (5,) must agree in d_c"));
    CHECK_THROWS_WITH(with_past(numbers.matrix(2, 5), numbers.matrix(2, 3)),
                      ContainsSubstring("past shared key (2, 3) and compressed weights (6, 7), whose last 2 columns"));
    CHECK_THROWS_WITH(with_past(numbers.matrix(2, 5), numbers.matrix(1, 2)),
                      ContainsSubstring("past latent (2, 5) and past shared key (1, 2) must agree in past"));

    const BlockWeights block{.norm1 = random_norm(numbers, 6, false),
                             .self_attention = right,
                             .norm2 = random_norm(numbers, 6, false),
                             .feed_forward = random_feed_forward(numbers, 6, 5)};
    const KeyValueCache of_heads{numbers.matrix(2, 12), numbers.matrix(2, 6)};
    CHECK_THROWS_WITH(cached_decoder_block(x, of_heads, block, {.attention = two}),
                      ContainsSubstring("the cache is of another kind of attention than the weights"));

    Recorder recorder;
    CHECK_THROWS_AS(latent_attention(numbers.matrix(3, 5), right, two, Trace(recorder)), ShapeError);
    CHECK(recorder.steps().empty());
}
