#include "attn/reference/models/llama.hpp"

#include "reference/layers/examples.hpp"
#include "masked.hpp"
#include "step_tables.hpp"
#include "caught.hpp"
#include "test.hpp"

#include "attn/core/shape.hpp"
#include "attn/reference/models/keras_attention.hpp"
#include "attn/reference/ops/concat.hpp"
#include "attn/reference/ops/matmul.hpp"

using namespace attn;
using namespace attn::test;

namespace {

// ------------------------------------------------------------------------------------------------------ random decoders

struct DecoderSizes {
    std::size_t heads = 4, groups = 2, d_k = 2, d_model = 5, d_ff = 3, layers = 2, vocabulary = 7;
};

RmsNormWeights random_gain(Numbers& numbers, std::size_t d_model) { return {numbers.vector(d_model)}; }

GatedFeedForwardWeights random_network(Numbers& numbers, std::size_t d_model, std::size_t d_ff)
{
    Matrix gate = numbers.matrix(d_model, d_ff), up = numbers.matrix(d_model, d_ff);
    return {{std::move(gate)}, {std::move(up)}, {numbers.matrix(d_ff, d_model)}};
}

LlamaWeights random_decoder(Numbers& numbers, const DecoderSizes& s = {})
{
    LlamaWeights weights{.embedding = numbers.matrix(s.vocabulary, s.d_model)};
    for (std::size_t i = 0; i < s.layers; ++i) {
        LlamaLayerWeights& layer = weights.layers.emplace_back();
        layer.norm1 = random_gain(numbers, s.d_model);
        layer.self_attention = {{numbers.matrix(s.d_model, s.heads * s.d_k)},
                                {numbers.matrix(s.d_model, s.groups * s.d_k)},
                                {numbers.matrix(s.d_model, s.groups * s.d_k)},
                                LinearWeights{numbers.matrix(s.heads * s.d_k, s.d_model)}};
        layer.norm2 = random_gain(numbers, s.d_model);
        layer.feed_forward = random_network(numbers, s.d_model, s.d_ff);
    }
    weights.norm = random_gain(numbers, s.d_model);
    return weights;
}

/// A head's columns, each group's once for every head that shares them.
Matrix repeated_by_hand(const Matrix& packed, std::size_t heads, std::size_t groups)
{
    const std::size_t width = packed.shape(1) / groups;
    Matrix all(Matrix::shape_type{packed.shape(0), heads * width});
    for (std::size_t i = 0; i < packed.shape(0); ++i)
        for (std::size_t head = 0; head < heads; ++head)
            for (std::size_t j = 0; j < width; ++j)
                all(i, head * width + j) = packed(i, head * groups / heads * width + j);
    return all;
}

Matrix row_of(const Matrix& matrix, std::size_t row) { return rows_by_hand(matrix, {row}); }

} // namespace

// ------------------------------------------------------------------------------------------------------------ rms norm

TEST_CASE("a root mean square norm divides by the root of the mean square", "[layers][rms_norm]")
{
    CHECK(close(rms_norm(Matrix{{3, 4}, {0, 0}}, {Vector{2, 10}}, {0.0}),
                Matrix{{6 / std::sqrt(12.5), 40 / std::sqrt(12.5)}, {NAN, NAN}}) == false); // 0 / 0 without epsilon
    CHECK(close(rms_norm(Matrix{{3, 4}}, {Vector{2, 10}}, {0.0}), Matrix{{6 / std::sqrt(12.5), 40 / std::sqrt(12.5)}}));
    CHECK(rms_norm(Matrix{{1, 1}}, {Vector{1, 1}}, {3})(0, 0) == 0.5); // 1 / sqrt(1 + 3): epsilon is inside the root
    CHECK(same_bits(rms_norm(Matrix{{0, 0}}, {Vector{1, 1}}), Matrix{{0, 0}}));
}

TEST_CASE("a root mean square norm is a layer norm of tokens whose mean is 0", "[layers][rms_norm]")
{
    Numbers numbers(1);
    Matrix x = numbers.matrix(4, 6);
    const RmsNormWeights weights = random_gain(numbers, 6);
    CHECK_FALSE(close(rms_norm(x, weights), layer_norm(x, {weights.gain})));
    for (std::size_t i = 0; i < 4; ++i) {
        double mean = 0;
        for (std::size_t j = 0; j < 6; ++j)
            mean += x(i, j) / 6;
        for (std::size_t j = 0; j < 6; ++j)
            x(i, j) -= mean;
    }
    CHECK(close(rms_norm(x, weights), layer_norm(x, {weights.gain})));
    CHECK(close(rms_norm(Matrix(4.0 * x), weights, {0}), rms_norm(x, weights, {0}))); // a token's length goes
}

TEST_CASE("a root mean square norm refuses a gain of another size", "[layers][rms_norm]")
{
    CHECK_THROWS_AS(rms_norm(Matrix(Matrix::shape_type{2, 3}), {Vector{1, 1}}), ShapeError);
    CHECK_THROWS_WITH(rms_norm(Tensor3(Tensor3::shape_type{2, 2, 3}), {Vector{1}}),
                      ContainsSubstring("rms_norm: x (2, 2, 3) and gain (1,) must agree in d_model"));
}

// ------------------------------------------------------------------------------------------------------- gated network

TEST_CASE("a gated network is silu(gate) times up, and down, number by number", "[layers][gated_feed_forward]")
{
    Numbers numbers(2);
    for (const std::size_t d_ff : {1, 4, 7}) {
        const Matrix x = numbers.matrix(3, 5);
        const GatedFeedForwardWeights weights = random_network(numbers, 5, d_ff);
        const Matrix gate = product_by_hand(x, weights.gate.weight);
        Matrix gated = product_by_hand(x, weights.up.weight);
        for (std::size_t i = 0; i < gated.size(); ++i)
            gated.data()[i] *= gate.data()[i] / (1 + std::exp(-gate.data()[i]));
        CHECK(close(gated_feed_forward(x, weights), product_by_hand(gated, weights.down.weight)));
    }
}

TEST_CASE("a gated network may have biases, and refuses maps that disagree", "[layers][gated_feed_forward]")
{
    Numbers numbers(3);
    GatedFeedForwardWeights weights = random_network(numbers, 5, 4);
    weights.gate.bias = numbers.vector(4);
    weights.down.bias = numbers.vector(5);
    const Matrix x = numbers.matrix(2, 5);
    const Recorder recorder = recorded([&](const Trace& trace) { gated_feed_forward(x, weights, {}, trace); });
    CHECK(wrong_steps(recorder) == Lines{});
    CHECK(count_of(recorder, "gate_bias") + count_of(recorder, "up_bias") + count_of(recorder, "down_bias") == 2);
    weights.up.weight = numbers.matrix(5, 3);
    CHECK_THROWS_WITH(gated_feed_forward(x, weights),
                      ContainsSubstring("gate weights (5, 4) and up weights (5, 3) must agree in d_ff"));
}

// ------------------------------------------------------------------------------------------------------- grouped heads

TEST_CASE("heads that share keys and values are heads whose maps repeat those columns", "[layers][multi_head][grouped]")
{
    Numbers numbers(4);
    for (const auto& [heads, groups] :
         std::vector<std::pair<std::size_t, std::size_t>>{{4, 2}, {6, 3}, {6, 2}, {5, 1}, {3, 3}})
        for (const HeadPositions positions : {HeadPositions::none, HeadPositions::rotary, HeadPositions::alibi}) {
            CAPTURE(heads, groups);
            const Matrix x = numbers.matrix(4, 7);
            MultiHeadWeights grouped{{numbers.matrix(7, heads * 2)},
                                     {numbers.matrix(7, groups * 2), numbers.vector(groups * 2)},
                                     {numbers.matrix(7, groups * 3), numbers.vector(groups * 3)},
                                     LinearWeights{numbers.matrix(heads * 3, 7)}};
            MultiHeadWeights repeated = grouped;
            repeated.key.weight = repeated_by_hand(grouped.key.weight, heads, groups);
            repeated.value.weight = repeated_by_hand(grouped.value.weight, heads, groups);
            for (LinearWeights* map : {&repeated.key, &repeated.value}) {
                const Matrix bias = repeated_by_hand(xt::view(*map->bias, xt::newaxis(), xt::all()), heads, groups);
                map->bias = Vector(xt::view(bias, 0, xt::all()));
            }
            const MultiHead found = attend(x, grouped, {.heads = heads, .positions = positions});
            const MultiHead expected = attend(x, repeated, {.heads = heads, .positions = positions});
            CHECK(close(found.output, expected.output));
            for (std::size_t head = 0; head < heads; ++head)
                CHECK(close(found.weights[head], expected.weights[head]));
        }
}

TEST_CASE("as many key/value heads as heads is multi-head attention, bit for bit", "[layers][multi_head][grouped]")
{
    Numbers numbers(5);
    const Matrix x = numbers.matrix(3, 6);
    const MultiHeadWeights weights = random_heads(numbers);
    const Recorder plain = recorded([&](const Trace& trace) { multi_head_attention(x, weights, {.heads = 4}, trace); });
    const Recorder grouped =
        recorded([&](const Trace& trace) { multi_head_attention(x, weights, {.heads = 4}, trace); });
    CHECK(different_rows(kept(plain), kept(grouped)) == "");
    for (std::size_t i = 0; i < plain.steps().size(); ++i)
        CHECK(identical(plain.steps()[i].value, grouped.steps()[i].value));
}

TEST_CASE("groups that don't fit heads or weights are refused", "[layers][multi_head][grouped]")
{
    const auto refusal = [](std::size_t keys, std::size_t values) -> std::string {
        const MultiHeadWeights weights{{Matrix(Matrix::shape_type{6, 8}, 1.0)},
                                       {Matrix(Matrix::shape_type{6, keys}, 1.0)},
                                       {Matrix(Matrix::shape_type{6, values}, 1.0)},
                                       LinearWeights{Matrix(Matrix::shape_type{8, 6}, 1.0)}};
        return caught<ShapeError>([&] {
            multi_head_attention(Matrix(Matrix::shape_type{3, 6}, 1.0), weights, {.heads = 4});
        });
    };
    CHECK(refusal(4, 4).empty());
    CHECK_THAT(refusal(6, 6), ContainsSubstring("4 heads can't be divided evenly among 3 key/value heads"));
    CHECK_THAT(refusal(5, 4), ContainsSubstring("query weights (6, 8) of 4 heads and key weights (6, 5)"));
    CHECK_THAT(refusal(0, 4), ContainsSubstring("key weights (6, 0)"));
    CHECK_THAT(refusal(4, 8),
               ContainsSubstring("value weights (6, 8) of 2 key/value heads and output weights (8, 6) of "
                                 "4 heads must agree in d_v"));
    CHECK_THAT(refusal(4, 5), ContainsSubstring("value weights (6, 5) can't be divided evenly among 2 heads"));
}

TEST_CASE("attention with a cache gives new tokens the outputs that they have without it", "[layers][cache]")
{
    Numbers numbers(6);
    for (const std::size_t groups : {4, 2, 1})
        for (const HeadPositions positions : {HeadPositions::none, HeadPositions::rotary, HeadPositions::alibi})
            for (const std::size_t past : {0, 1, 3}) {
                CAPTURE(groups, past);
                const Matrix x = numbers.matrix(5, 6);
                const MultiHeadWeights weights{{numbers.matrix(6, 8)},
                                               {numbers.matrix(6, groups * 2)},
                                               {numbers.matrix(6, groups * 2)},
                                               LinearWeights{numbers.matrix(8, 6)}};
                const MultiHeadOptions options{.heads = 4, .causal = Causal::bottom_right, .positions = positions};
                const MultiHead whole = multi_head_attention(x, weights, options);

                std::optional<KeyValueCache> cache;
                if (past > 0) {
                    cache = cached_self_attention(rows_by_hand(x, std::vector<std::size_t>{0, 1, 2}), std::nullopt,
                                                  weights, options)
                                .cache;
                    cache->keys = Matrix(xt::view(cache->keys, xt::range(std::size_t{0}, past), xt::all()));
                    cache->values = Matrix(xt::view(cache->values, xt::range(std::size_t{0}, past), xt::all()));
                }
                const Matrix added = xt::view(x, xt::range(past, std::size_t{5}), xt::all());
                const CachedMultiHead found = cached_self_attention(added, cache, weights, options);
                CHECK(close(found.output, Matrix(xt::view(whole.output, xt::range(past, std::size_t{5}), xt::all()))));
                CHECK(shape_of(found.cache.keys) == Shape{5, groups * 2});
                CHECK(shape_of(found.cache.values) == Shape{5, groups * 2});
            }
}

TEST_CASE("a cache that does not fit the weights is refused", "[layers][cache]")
{
    Numbers numbers(7);
    const MultiHeadWeights weights = random_heads(numbers);
    const Matrix x = numbers.matrix(1, 6);
    const auto with = [&](const Matrix& keys, const Matrix& values) {
        cached_self_attention(x, KeyValueCache{keys, values}, weights);
    };
    CHECK_NOTHROW(with(numbers.matrix(2, 4), numbers.matrix(2, 8)));
    CHECK_THROWS_WITH(with(numbers.matrix(2, 3), numbers.matrix(2, 8)),
                      ContainsSubstring("past keys (2, 3) and key weights (6, 4) must agree in g d_k"));
    CHECK_THROWS_WITH(with(numbers.matrix(2, 4), numbers.matrix(2, 7)), ContainsSubstring("past values (2, 7)"));
    CHECK_THROWS_WITH(with(numbers.matrix(2, 4), numbers.matrix(3, 8)), ContainsSubstring("must agree in past"));
}

// ------------------------------------------------------------------------------------------------------------- decoder

TEST_CASE("a decoder with a cache gives every token the logits that it has without", "[layers][llama][cache]")
{
    Numbers numbers(8);
    for (const RotaryLayout layout : {RotaryLayout::pairs, RotaryLayout::halves}) {
        const LlamaWeights weights = random_decoder(numbers);
        const LlamaOptions options{.heads = 4, .rotary = {.layout = layout}};
        const Integers ids{3, 0, 6, 6, 1, 2};
        const Matrix whole = llama(ids, weights, options);
        LlamaCache cache;
        for (std::size_t i = 0; i < ids.size(); ++i) {
            CHECK(cache.length() == i);
            LlamaStep step = llama(Integers{ids(i)}, cache, weights, options);
            CHECK(close(step.logits, row_of(whole, i)));
            cache = std::move(step.cache);
        }
        const LlamaStep first = llama(Integers{3, 0, 6}, {}, weights, options);
        CHECK(close(llama(Integers{6, 1, 2}, first.cache, weights, options).logits, rows_by_hand(whole, {3, 4, 5})));
    }
}

TEST_CASE("a later token changes no earlier logit, and any token changes its own", "[layers][llama]")
{
    Numbers numbers(9);
    const LlamaWeights weights = random_decoder(numbers);
    const Matrix before = llama(Integers{1, 2, 3, 4}, weights, {.heads = 4});
    const Matrix after = llama(Integers{1, 2, 5, 4}, weights, {.heads = 4});
    CHECK(same_bits(rows_by_hand(before, {0, 1}), rows_by_hand(after, {0, 1})));
    CHECK_FALSE(close(row_of(before, 2), row_of(after, 2)));
    CHECK_FALSE(close(row_of(before, 3), row_of(after, 3)));
}

TEST_CASE("a decoder whose positions begin at 1000 gives the same logits: only distances count",
          "[layers][llama][rotary]")
{
    Numbers numbers(10);
    const LlamaWeights weights = random_decoder(numbers);
    const Integers ids{1, 2, 3, 4};
    CHECK(close(llama(ids, weights, {.heads = 4}), llama(ids, weights, {.heads = 4, .rotary = {.first = 1000}}), 1e-9));
    CHECK_FALSE(close(llama(ids, weights, {.heads = 4}), llama(Integers{2, 1, 3, 4}, weights, {.heads = 4}), 1e-9));
}

TEST_CASE("a tied decoder is one whose output map is the embedding's transpose", "[layers][llama]")
{
    Numbers numbers(11);
    const LlamaWeights tied = random_decoder(numbers);
    LlamaWeights own = tied;
    own.output = transpose(tied.embedding);
    CHECK(same_bits(llama(Integers{1, 2}, tied, {.heads = 4}), llama(Integers{1, 2}, own, {.heads = 4})));
    own.output = numbers.matrix(5, 9);
    CHECK(shape_of(llama(Integers{1, 2}, own, {.heads = 4})) == Shape{2, 9});
}

TEST_CASE("a traced decoder gives the same bits", "[layers][llama][trace]")
{
    Numbers numbers(12);
    const LlamaWeights weights = random_decoder(numbers);
    const Integers ids{1, 2, 0};
    Recorder whole, cached;
    CHECK(same_bits(llama(ids, weights, {.heads = 4}, Trace(whole)), llama(ids, weights, {.heads = 4})));
    const LlamaStep before = llama(Integers{5}, {}, weights, {.heads = 4});
    CHECK(same_bits(llama(ids, before.cache, weights, {.heads = 4}, Trace(cached)).logits,
                    llama(ids, before.cache, weights, {.heads = 4}).logits));
    CHECK(wrong_steps(whole) == Lines{});
    CHECK(wrong_steps(cached) == Lines{});
    CHECK(count_of(whole, "causal") == 1); // one for all layers and heads
}

TEST_CASE("a decoder refuses ids that it has no row for, and weights and caches that disagree", "[layers][llama]")
{
    Numbers numbers(13);
    LlamaWeights weights = random_decoder(numbers);
    CHECK_THROWS_WITH(llama(Integers{7}, weights, {.heads = 4}), ContainsSubstring("ids[0] is 7, but table (7, 5)"));
    CHECK_THROWS_WITH(llama(Integers{-1}, weights, {.heads = 4}), ContainsSubstring("ids[0] is -1"));
    CHECK_THROWS_WITH(llama(Integers{1}, weights, {.heads = 3}),
                      ContainsSubstring("query weights (5, 8) can't be divided evenly among 3 heads"));
    CHECK_THROWS_AS(llama(Integers{1}, weights, {.heads = 0}), ShapeError);
    LlamaCache cache;
    cache.layers.resize(1);
    CHECK_THROWS_WITH(llama(Integers{1}, cache, weights, {.heads = 4}),
                      ContainsSubstring("a cache of 1 layers is no cache of 2"));
    weights.output = numbers.matrix(4, 7);
    CHECK_THROWS_WITH(llama(Integers{1}, weights, {.heads = 4}), ContainsSubstring("output weights (4, 7)"));
    weights.layers[1].feed_forward.down.weight = numbers.matrix(3, 4);
    CHECK_THROWS_WITH(llama(Integers{1}, weights, {.heads = 4}), ContainsSubstring("feed_forward.output (1, 4)"));
}

// ----------------------------------------------------------------------------------------------------- Keras's attention

TEST_CASE("Keras-style attention gives what masked multi-head attention gives, where at least one key is allowed",
          "[layers][keras]")
{
    Numbers numbers(14);
    const Matrix x = numbers.matrix(4, 6);
    const KerasAttentionWeights weights{numbers.matrix(6, 4), numbers.matrix(6, 4), numbers.matrix(6, 6)};
    const MultiHeadWeights same{{weights.query}, {weights.key}, {weights.value}};
    CHECK(close(keras_attention(x, x, x, {}, weights, {.heads = 2}).output, attend(x, same, {.heads = 2}).output));
    CHECK(close(keras_attention(x, x, x, {}, weights, {.heads = 2, .mask_right = true}).output,
                attend(x, same, {.heads = 2, .mask = causal_mask(4, 4)}).output));
    Mask first_three(Mask::shape_type{4, 4}, true);
    for (std::size_t i = 0; i < 4; ++i)
        first_three(i, 3) = false;
    CHECK(close(keras_attention(x, x, x, {.values = Vector{1, 1, 1, 0}}, weights, {.heads = 2}).output,
                attend(x, same, {.heads = 2, .mask = first_three}).output));
}

TEST_CASE("where every key is masked, a large number changes no weight, minus infinity makes all weights 0",
          "[layers][keras][mask]")
{
    Numbers numbers(15);
    const Matrix x = numbers.matrix(3, 4);
    const KerasAttentionWeights weights{numbers.matrix(4, 2), numbers.matrix(4, 2), numbers.matrix(4, 2)};
    const Matrix unmasked = keras_attention(x, x, x, {}, weights).weights[0];
    const Matrix starved = keras_attention(x, x, x, {.values = Vector{0, 0, 0}}, weights).weights[0];
    CHECK(close(starved, unmasked, 1e-5)); // as if there were no mask, to the digits that 1e10 leaves
    CHECK_FALSE(close(starved, unmasked, 1e-12));
    const Mask nothing(Mask::shape_type{3, 3}, false);
    const MultiHeadWeights same{{weights.query}, {weights.key}, {weights.value}};
    CHECK(same_bits(attend(x, same, {.mask = nothing}).weights[0], Matrix(Matrix::shape_type{3, 3}, 0.0)));
}

TEST_CASE("queries of padding come out as zeros, and change nothing else", "[layers][keras][mask]")
{
    Numbers numbers(16);
    const Matrix x = numbers.matrix(3, 4);
    const KerasAttentionWeights weights{numbers.matrix(4, 2), numbers.matrix(4, 2), numbers.matrix(4, 2)};
    const Matrix all = keras_attention(x, x, x, {}, weights).output;
    const Matrix some = keras_attention(x, x, x, {.queries = Vector{1, 0, 1}}, weights).output;
    CHECK(same_bits(rows_by_hand(some, {0, 2}), rows_by_hand(all, {0, 2})));
    CHECK(some(1, 0) == 0);
    CHECK(some(1, 1) == 0);
}

TEST_CASE("Keras-style attention refuses what disagrees", "[layers][keras]")
{
    Numbers numbers(17);
    const Matrix x = numbers.matrix(3, 4);
    const KerasAttentionWeights weights{numbers.matrix(4, 2), numbers.matrix(4, 2), numbers.matrix(4, 3)};
    CHECK_THROWS_WITH(keras_attention(x, x, x, {}, weights, {.heads = 2}),
                      ContainsSubstring("keras_attention: value weights (4, 3) can't be divided evenly among 2 heads"));
    CHECK_THROWS_WITH(keras_attention(x, numbers.matrix(2, 4), x, {}, weights), ContainsSubstring("must agree in m"));
    CHECK_THROWS_WITH(keras_attention(x, numbers.matrix(3, 5), x, {}, weights),
                      ContainsSubstring("must agree in d_memory"));
    CHECK_THROWS_WITH(keras_attention(x, x, x, {.values = Vector{1, 1}}, weights),
                      ContainsSubstring("value mask (2,) and memory (3, 4) must agree in m"));
    CHECK_THROWS_WITH(keras_attention(x, x, x, {.queries = Vector{1, 1, 1, 1}}, weights),
                      ContainsSubstring("query mask (4,) and x (3, 4) must agree in n"));
}

// --------------------------------------------------------------------------------------------------------------- steps

TEST_CASE("the steps of the modern decoder's parts are the ones that their doc comments list",
          "[steps][layers][source]")
{
    Numbers numbers(18);
    const Matrix x = numbers.matrix(3, 5);
    const auto differs = [](const Lines& table, const auto& run) { return different_rows(table, recorded(run)); };
    CHECK(differs(promised("reference/layers/rms_norm.hpp", "rms_norm"),
                  [&](const Trace& trace) { rms_norm(x, random_gain(numbers, 5), {}, trace); }) == "");
    CHECK(differs(promised("reference/layers/gated_feed_forward.hpp", "gated_feed_forward"),
                  [&](const Trace& trace) { gated_feed_forward(x, random_network(numbers, 5, 4), {}, trace); }) == "");
    const MultiHeadWeights one_head{
        {numbers.matrix(5, 3)}, {numbers.matrix(5, 3)}, {numbers.matrix(5, 3)}, LinearWeights{numbers.matrix(3, 5)}};
    const KeyValueCache past{numbers.matrix(2, 3), numbers.matrix(2, 3)};
    CHECK(differs(promised("reference/layers/cache.hpp", "cached_self_attention"),
                  [&](const Trace& trace) { cached_self_attention(x, past, one_head, {}, trace); }) == "");
    const KerasAttentionWeights keras{numbers.matrix(5, 3), numbers.matrix(5, 3), numbers.matrix(5, 3)};
    const Lines of_keras = promised("reference/models/keras_attention.hpp", "keras_attention");
    CHECK(differs(with_numbers(of_keras, {{"N", "3"}, {"M", "3"}}), [&](const Trace& trace) {
              keras_attention(x, x, x, {Vector{1, 1, 0}, Vector{1, 1, 0}}, keras, {.mask_right = true}, trace);
          }) == "");
}

TEST_CASE("the doc comments of the modern decoder list the steps that are their own", "[steps][layers][source]")
{
    Numbers numbers(19);
    const LlamaWeights weights = random_decoder(numbers);
    const Mask mask = causal_mask(3, 3);
    const Recorder layer = recorded([&](const Trace& trace) {
        static_cast<void>(trace.input("mask[n, m]", mask));
        llama_layer(numbers.matrix(3, 5), weights.layers[0], {.heads = 4, .mask = mask}, trace);
    });
    const Lines rows = promised("reference/models/llama.hpp", "llama_layer");
    CHECK(different_rows(rows, layer, "llama_layer") == "");
    const Recorder decoder = recorded([&](const Trace& trace) {
        llama(Integers{1, 2, 3}, weights, {.heads = 4}, trace);
    });
    const Lines listed = with_numbers(promised("reference/models/llama.hpp", "llama"), {{"N", "3"}});
    CHECK(different_rows(listed, decoder, "llama") == "");
}

TEST_CASE("grouped heads are named by their groups' axes, and slice what they share", "[steps][layers][grouped]")
{
    Numbers numbers(20);
    const Matrix x = numbers.matrix(3, 6);
    const MultiHeadWeights weights{{numbers.matrix(6, 8)}, {numbers.matrix(6, 4)}, {numbers.matrix(6, 6)}};
    const Lines all =
        lines(recorded([&](const Trace& trace) { multi_head_attention(x, weights, {.heads = 4}, trace); }));
    const auto has = [&](const std::string& line) { return std::ranges::find(all, line) != all.end(); };
    CHECK(has("key_weights | d_model, g_d_k |  | multi_head_attention"));
    CHECK(has("key | m, g_d_k | x @ key_weights | multi_head_attention"));
    CHECK(has("value | m, g_d_v | x @ value_weights | multi_head_attention"));
    for (const char* head : {"0", "1"})
        CHECK(has("head." + std::string(head) + ".keys | m, d_k | key[..., 0:2] | multi_head_attention"));
    CHECK(has("head.2.keys | m, d_k | key[..., 2:4] | multi_head_attention"));
    CHECK(has("head.3.values | m, d_v | value[..., 3:6] | multi_head_attention"));
    CHECK(has("head.3.queries | n, d_k | query[..., 6:8] | multi_head_attention"));
    const Recorder described =
        recorded([&](const Trace& trace) { multi_head_attention(x, weights, {.heads = 4}, trace); });
    CHECK(described.steps().front().options[1] == std::pair<std::string, std::string>{"key_value_heads", "2"});
}
