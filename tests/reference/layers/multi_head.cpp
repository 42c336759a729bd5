#include "attn/reference/layers/multi_head.hpp"

#include "laws.hpp"
#include "test.hpp"

#include "attn/core/shape.hpp"

using namespace attn;
using namespace attn::test;

namespace {

constexpr HeadSizes memory_sizes{.d_memory = 5, .d_value = 3};

} // namespace

TEST_CASE("packed heads are heads in a loop, each with its own columns of the maps", "[layers][multi_head]")
{
    Numbers numbers(1);
    for (const std::size_t heads : {1, 2, 4})
        for (const bool has_output_map : {true, false})
            for (const bool is_biased : {true, false}) {
                CAPTURE(heads, has_output_map, is_biased);
                const Matrix x = numbers.matrix(5, 6);
                const MultiHeadWeights weights =
                    random_heads(numbers, {.has_output_map = has_output_map, .is_biased = is_biased});
                const MultiHead found = attend(x, weights, {.heads = heads});
                REQUIRE(found.weights.size() == heads);
                CHECK(close_heads(found, heads_by_hand(x, x, x, weights, heads)));
                CHECK(shape_of(found.output) == Shape{5, has_output_map ? 6U : 8U});
            }
}

TEST_CASE("mask, bias and scale are the same for all heads, as by hand", "[layers][multi_head][mask]")
{
    Numbers numbers(2);
    const Matrix x = numbers.matrix(4, 6);
    const MultiHeadWeights weights = random_heads(numbers);
    const Mask mask = numbers.mask(4, 4);
    const Matrix bias = numbers.matrix(4, 4);
    CHECK(close_heads(attend(x, weights, {.heads = 2, .mask = mask}),
                      heads_by_hand(x, x, x, weights, 2, {.mask = mask})));
    CHECK(close_heads(attend(x, weights, {.heads = 2, .bias = bias}),
                      heads_by_hand(x, x, x, weights, 2, {.bias = bias})));
    CHECK(close_heads(attend(x, weights, {.heads = 2, .scale = 0.125}),
                      heads_by_hand(x, x, x, weights, 2, {.scale = 0.125})));
    CHECK(close_heads(attend(x, weights, {.heads = 4, .mask = mask, .bias = bias, .scale = 2}),
                      heads_by_hand(x, x, x, weights, 4, {mask, bias, 2})));
}

TEST_CASE("keys and values are made of the memory, or values of a memory of their own", "[layers][multi_head][cross]")
{
    Numbers numbers(3);
    const Matrix x = numbers.matrix(3, 6);
    const Matrix memory = numbers.matrix(5, 5);
    const Matrix value_memory = numbers.matrix(5, 3);
    const MultiHeadWeights cross = random_heads(numbers, {.d_memory = 5, .d_value = 5});
    CHECK(close_heads(attend(x, memory, cross, {.heads = 2}), heads_by_hand(x, memory, memory, cross, 2)));
    const MultiHeadWeights general = random_heads(numbers, memory_sizes);
    CHECK(close_heads(attend(x, memory, value_memory, general, {.heads = 2}),
                      heads_by_hand(x, memory, value_memory, general, 2)));
}

TEST_CASE("attention to itself is attention to a memory that is the same, bit for bit", "[layers][multi_head][cross]")
{
    Numbers numbers(4);
    const Matrix x = numbers.matrix(4, 6);
    const MultiHeadWeights weights = random_heads(numbers);
    const MultiHead self = attend(x, weights, {.heads = 2});
    CHECK(same_results(self, attend(x, x, weights, {.heads = 2})));
    CHECK(same_results(self, attend(x, x, x, weights, {.heads = 2})));
}

TEST_CASE("one head whose maps change nothing is scaled dot-product attention", "[layers][multi_head]")
{
    Numbers numbers(5);
    Matrix identity(Matrix::shape_type{3, 3}, 0.0);
    for (std::size_t i = 0; i < 3; ++i)
        identity(i, i) = 1;
    const Matrix x = numbers.matrix(4, 3);
    const MultiHead found = attend(x, MultiHeadWeights{{identity}, {identity}, {identity}});
    CHECK(close(found.output, attention_by_hand(x, x, x).context));
}

TEST_CASE("in every head, each query's weights sum to one", "[layers][multi_head]")
{
    Numbers numbers(6);
    const MultiHead found = attend(numbers.matrix(4, 6), random_heads(numbers), {.heads = 4});
    for (const Matrix& weights : found.weights)
        CHECK(close(product_by_hand(weights, Matrix(Matrix::shape_type{4, 1}, 1.0)),
                    Matrix(Matrix::shape_type{4, 1}, 1.0), 1e-15));
    CHECK_FALSE(close(found.weights[0], found.weights[1]));
}

TEST_CASE("permuting keys and values together changes nothing", "[layers][multi_head][cross]")
{
    Numbers numbers(7);
    const Matrix x = numbers.matrix(3, 6);
    const Matrix memory = numbers.matrix(5, 5);
    const Matrix value_memory = numbers.matrix(5, 3);
    const MultiHeadWeights weights = random_heads(numbers, memory_sizes);
    const std::vector<std::size_t> order{3, 0, 4, 1, 2};
    const MultiHead before = attend(x, memory, value_memory, weights, {.heads = 2});
    const MultiHead after =
        attend(x, rows_by_hand(memory, order), rows_by_hand(value_memory, order), weights, {.heads = 2});
    CHECK(close(before.output, after.output));
    CHECK_FALSE(close(before.weights[0], after.weights[0]));
}

TEST_CASE("permuting the tokens of self-attention permutes its outputs", "[layers][multi_head]")
{
    Numbers numbers(8);
    const Matrix x = numbers.matrix(4, 6);
    const MultiHeadWeights weights = random_heads(numbers);
    const std::vector<std::size_t> order{2, 0, 3, 1};
    CHECK(close(attend(rows_by_hand(x, order), weights, {.heads = 2}).output,
                rows_by_hand(attend(x, weights, {.heads = 2}).output, order)));
}

TEST_CASE("under a causal mask, a later token changes no earlier output", "[layers][multi_head][mask]")
{
    Numbers numbers(9);
    const Matrix x = numbers.matrix(5, 6);
    const MultiHeadWeights weights = random_heads(numbers);
    for (const HeadPositions positions : {HeadPositions::none, HeadPositions::rotary, HeadPositions::alibi})
        check_causal(x, [&](const Matrix& tokens) {
            return attend(tokens, weights, {.heads = 2, .mask = causal_by_hand(5), .positions = positions});
        });
}

TEST_CASE("attention of a batch gives what attention of each sequence alone gives", "[layers][multi_head][batch]")
{
    Numbers numbers(10);
    const Tensor3 x = numbers.tensor3(3, 4, 6);
    const Tensor3 memory = numbers.tensor3(3, 5, 5);
    const Tensor3 value_memory = numbers.tensor3(3, 5, 3);
    const Mask shared = numbers.mask(4, 4);
    const BatchMask for_each = random_batch_mask(numbers, 3, 4, 4);
    const MultiHeadWeights weights = random_heads(numbers);
    const MultiHeadWeights cross = random_heads(numbers, {.d_memory = 5, .d_value = 5});
    const MultiHeadWeights general = random_heads(numbers, memory_sizes);
    for (const HeadPositions positions : {HeadPositions::none, HeadPositions::rotary, HeadPositions::alibi}) {
        const Heads open{.heads = 2, .positions = positions};
        const auto with = [&](const AnyMask& mask) { return Heads{.heads = 2, .mask = mask, .positions = positions}; };
        const BatchMultiHead plain = attend(x, weights, open);
        REQUIRE(shape_of(plain.output) == Shape{3, 4, 6});
        REQUIRE(shape_of(plain.weights.at(1)) == Shape{3, 4, 4});
        check_batch(x, [&](const auto& tokens, auto) { return attend(tokens, weights, open); });
        check_batch(x, [&](const auto& tokens, auto) { return attend(tokens, weights, with(shared)); });
        check_batch(x, [&](const auto& tokens, auto own) { return attend(tokens, weights, with(own(for_each))); });
        check_batch(x, [&](const auto& tokens, auto own) { return attend(tokens, own(memory), cross, open); });
        check_batch(x, [&](const auto& tokens, auto own) {
            return attend(tokens, own(memory), own(value_memory), general, open);
        });
    }
}

TEST_CASE("rotary heads rotate queries and keys, and not values", "[layers][multi_head]")
{
    Numbers numbers(11);
    const Matrix x = numbers.matrix(4, 6);
    const MultiHeadWeights weights = random_heads(numbers, {.has_output_map = false});
    for (const RotaryLayout layout : {RotaryLayout::pairs, RotaryLayout::halves}) {
        const RotaryOptions rotary_options{100, layout, 2};
        const MultiHead found =
            attend(x, weights, {.heads = 2, .positions = HeadPositions::rotary, .rotary = rotary_options});
        const Matrix query = linear_by_hand(x, weights.query);
        const Matrix key = linear_by_hand(x, weights.key);
        const Matrix value = linear_by_hand(x, weights.value);
        for (std::size_t head = 0; head < 2; ++head) {
            const Attention expected =
                attention_by_hand(rotary(columns_by_hand(query, 2 * head, 2 * head + 2), rotary_options),
                                  rotary(columns_by_hand(key, 2 * head, 2 * head + 2), rotary_options),
                                  columns_by_hand(value, 4 * head, 4 * head + 4));
            CHECK(close(found.weights[head], expected.weights));
            CHECK(close(columns_by_hand(found.output, 4 * head, 4 * head + 4), expected.context));
        }
    }
}

TEST_CASE("rotary weights depend on the tokens' distances, not on where the first one stands", "[layers][multi_head]")
{
    Numbers numbers(12);
    const Matrix x = numbers.matrix(4, 6);
    const MultiHeadWeights weights = random_heads(numbers);
    const auto from_place = [&](std::size_t first) {
        return attend(x, weights, {.heads = 2, .positions = HeadPositions::rotary, .rotary = {.first = first}});
    };
    CHECK(close_heads(from_place(0), from_place(17)));
    CHECK_FALSE(close(from_place(0).output, attend(x, weights, {.heads = 2}).output));
}

TEST_CASE("with ALiBi, each head's scores are lowered by its slope times the distance", "[layers][multi_head][alibi]")
{
    Numbers numbers(13);
    const Matrix x = numbers.matrix(4, 6);
    const MultiHeadWeights weights = random_heads(numbers);
    const MultiHead found = attend(x, weights, {.heads = 2, .positions = HeadPositions::alibi});
    const double slopes[] = {0x1p-4, 0x1p-8};
    for (std::size_t head = 0; head < 2; ++head) {
        Matrix bias(Matrix::shape_type{4, 4});
        for (std::size_t i = 0; i < 4; ++i)
            for (std::size_t j = 0; j < 4; ++j)
                bias(i, j) = -slopes[head] * std::abs(static_cast<double>(i) - static_cast<double>(j));
        CHECK(close(found.weights[head], heads_by_hand(x, x, x, weights, 2, {.bias = bias}).weights[head]));
    }
}

TEST_CASE("traced heads give the same bits, and every formula holds", "[layers][multi_head][trace]")
{
    Numbers numbers(14);
    const Matrix x = numbers.matrix(4, 6);
    const Tensor3 batch = numbers.tensor3(2, 4, 6);
    const Mask mask = numbers.mask(4, 4);
    const Matrix bias = numbers.matrix(4, 4);
    for (const bool has_output_map : {true, false})
        for (const HeadPositions positions : {HeadPositions::none, HeadPositions::rotary, HeadPositions::alibi})
            for (const bool has_mask : {true, false})
                for (const RotaryLayout layout : {RotaryLayout::pairs, RotaryLayout::halves}) {
                    CAPTURE(has_output_map, static_cast<int>(positions), has_mask);
                    const MultiHeadWeights weights =
                        random_heads(numbers, {.has_output_map = has_output_map, .is_biased = has_mask});
                    Heads options{.heads = 2, .positions = positions, .rotary = {.layout = layout}};
                    if (has_mask)
                        options.mask = mask;
                    if (positions == HeadPositions::none)
                        options.bias = bias;
                    const auto check = [&](const auto& tokens) {
                        traced([&](const Trace& trace) { return attend(tokens, weights, options, trace); });
                    };
                    check(x);
                    check(batch);
                }
}

TEST_CASE("traced cross-attention gives the same bits, and every formula holds", "[layers][multi_head][trace][cross]")
{
    Numbers numbers(15);
    const Matrix x = numbers.matrix(2, 6);
    const Matrix memory = numbers.matrix(5, 5);
    const Matrix value_memory = numbers.matrix(5, 3);
    const MultiHeadWeights cross = random_heads(numbers, {.d_memory = 5, .d_value = 5});
    const MultiHeadWeights general = random_heads(numbers, memory_sizes);
    for (const HeadPositions positions : {HeadPositions::none, HeadPositions::rotary, HeadPositions::alibi}) {
        const Heads options{.heads = 2, .positions = positions};
        traced([&](const Trace& trace) { return attend(x, memory, cross, options, trace); });
        traced([&](const Trace& trace) { return attend(x, memory, value_memory, general, options, trace); });
    }
}

TEST_CASE("a mask and a bias that all heads share are recorded once", "[layers][multi_head][trace][mask]")
{
    Numbers numbers(16);
    const Matrix x = numbers.matrix(3, 6);
    const MultiHeadWeights weights = random_heads(numbers);
    const Heads options{.heads = 4, .mask = numbers.mask(3, 3), .bias = numbers.matrix(3, 3)};
    const Recorder recorder = recorded([&](const Trace& trace) { attend(x, weights, options, trace); });
    CHECK(count_of(recorder, "mask") == 1);
    CHECK(count_of(recorder, "bias") == 1);
    CHECK(count_of(recorder, "masked") == 4);
    CHECK(count_of(recorder, "biased") == 4);
    const Recorder alibi = recorded(
        [&](const Trace& trace) { attend(x, weights, {.heads = 4, .positions = HeadPositions::alibi}, trace); });
    CHECK(count_of(alibi, "bias") == 4);
}

TEST_CASE("every step of multi-head attention says which options it ran with", "[layers][multi_head][trace]")
{
    Numbers numbers(17);
    const Matrix x = numbers.matrix(3, 6);
    const MultiHeadWeights weights = random_heads(numbers);
    const auto options_of = [&](const Heads& options) {
        return recorded([&](const Trace& trace) { attend(x, weights, options, trace); }).steps().back().options;
    };
    CHECK(options_of({.heads = 2}) ==
          StepOptions{{"heads", "2"}, {"mask", "none"}, {"bias", "none"}, {"scale", "1/sqrt(d_k)"}});
    CHECK(options_of({.heads = 2, .mask = causal_by_hand(3), .scale = 0.1, .positions = HeadPositions::rotary}) ==
          StepOptions{{"heads", "2"}, {"mask", "given"}, {"bias", "none"}, {"scale", "0.1"}, {"positions", "rotary"}});
    CHECK(options_of({.heads = 4, .positions = HeadPositions::alibi}).back() ==
          StepOptions::value_type{"positions", "alibi"});
    CHECK(options_of({.bias = numbers.matrix(3, 3)}).at(2) == StepOptions::value_type{"bias", "given"});
}

TEST_CASE("a number of heads that does not divide the maps' features is refused", "[layers][multi_head]")
{
    Numbers numbers(18);
    const Matrix x = numbers.matrix(3, 6);
    const MultiHeadWeights weights = random_heads(numbers, {.h_d_k = 4, .h_d_v = 6});
    CHECK_THROWS_AS(attend(x, weights, {.heads = 3}), ShapeError);
    CHECK_THROWS_WITH(attend(x, weights, {.heads = 3}),
                      ContainsSubstring("query weights (6, 4) can't be divided evenly among 3 heads"));
    CHECK_THROWS_WITH(attend(x, weights, {.heads = 4}),
                      ContainsSubstring("value weights (6, 6) can't be divided evenly among 4 heads"));
    CHECK_THROWS_AS(attend(x, weights, {.heads = 0}), ShapeError);
    CHECK_THROWS_WITH(attend(x, weights, {.heads = 0}), ContainsSubstring("0 heads"));
}

TEST_CASE("rotary heads with an odd number of features, and ALiBi with another bias, are refused",
          "[layers][multi_head]")
{
    Numbers numbers(19);
    const Matrix x = numbers.matrix(3, 6);
    const MultiHeadWeights weights = random_heads(numbers, {.h_d_k = 6, .h_d_v = 6});
    CHECK_THROWS_WITH(attend(x, weights, {.heads = 2, .positions = HeadPositions::rotary}),
                      ContainsSubstring("rotary: 3 features"));
    const Heads twice{.heads = 2, .bias = numbers.matrix(3, 3), .positions = HeadPositions::alibi};
    CHECK_THROWS_WITH(attend(x, weights, twice), ContainsSubstring("ALiBi is a bias"));
}

TEST_CASE("tokens, maps, masks and biases that disagree are refused before anything is traced", "[layers][multi_head]")
{
    Numbers numbers(20);
    const MultiHeadWeights weights = random_heads(numbers);
    const MultiHeadWeights cross = random_heads(numbers, memory_sizes);
    const Matrix x = numbers.matrix(3, 6);
    CHECK_THROWS_WITH(attend(numbers.matrix(3, 5), weights),
                      ContainsSubstring("multi_head_attention: x (3, 5) and query weights (6, 4)"));
    CHECK_THROWS_AS(attend(x, weights, {.mask = Mask(Mask::shape_type{3, 4}, true)}), ShapeError);
    CHECK_THROWS_WITH(attend(x, weights, {.mask = Mask(Mask::shape_type{3, 4}, true)}),
                      ContainsSubstring("mask (3, 4)"));
    CHECK_THROWS_AS(attend(x, weights, {.bias = numbers.matrix(1, 3)}), ShapeError);
    CHECK_THROWS_WITH(attend(x, numbers.matrix(4, 7), numbers.matrix(4, 3), cross),
                      ContainsSubstring("memory (4, 7) and key weights (5, 4)"));
    CHECK_THROWS_WITH(attend(x, numbers.matrix(4, 5), numbers.matrix(4, 4), cross),
                      ContainsSubstring("value_memory (4, 4) and value weights (3, 8)"));
    CHECK_THROWS_WITH(attend(x, numbers.matrix(4, 5), numbers.matrix(2, 3), cross),
                      ContainsSubstring("memory (4, 5) and value_memory (2, 3) must agree in m"));
    MultiHeadWeights narrow = weights;
    narrow.output = random_linear(numbers, 7, 6);
    CHECK_THROWS_WITH(attend(x, narrow),
                      ContainsSubstring("value weights (6, 8) and output weights (7, 6) must agree in h d_v"));
    MultiHeadWeights uneven = weights;
    uneven.key = random_linear(numbers, 6, 6);
    CHECK_THROWS_WITH(multi_head_attention(x, uneven),
                      ContainsSubstring("key weights (6, 6) do not make heads of one size"));

    Recorder recorder;
    CHECK_THROWS_AS(attend(numbers.matrix(3, 5), weights, {}, Trace(recorder)), ShapeError);
    CHECK(recorder.steps().empty());
}

TEST_CASE("each head can have norms of its own, of either kind, and as many as there are heads", "[layers][multi_head]")
{
    Numbers numbers(12);
    const Matrix x = numbers.matrix(4, 6);
    for (const bool is_biased : {false, true}) {
        CAPTURE(is_biased);
        MultiHeadWeights own = random_heads(numbers);
        MultiHeadWeights alone = own;
        const MultiHeadOptions options{.heads = 2, .norm_kind = NormKind::layer, .norm = {.epsilon = 0.25}};
        for (auto* norms : {&own.query_norms, &own.key_norms})
            for (int head = 0; head < 2; ++head) {
                norms->push_back({numbers.vector(2)});
                if (is_biased)
                    norms->back().bias = numbers.vector(2);
            }
        const Recorder recorder =
            traced([&](const Trace& trace) { return multi_head_attention(x, own, options, trace); });
        const auto& steps = recorder.recording().steps;
        CHECK(std::ranges::count(steps, "key_norm.1.gain", &Step::path) == 1); // however many heads share its keys
        for (const std::size_t head : {0U, 1U}) {
            alone.query_norms = {own.query_norms[head]};
            alone.key_norms = {own.key_norms[head]};
            const MultiHead shared = multi_head_attention(x, alone, options);
            CHECK(same_bits(multi_head_attention(x, own, options).weights[head], shared.weights[head]));
        }
        own.key_norms.pop_back();
        own.query_norms.push_back(own.query_norms.front());
        CHECK_THROWS_WITH(multi_head_attention(x, own, options), ContainsSubstring("3 norms in query_norm"));
    }
}
