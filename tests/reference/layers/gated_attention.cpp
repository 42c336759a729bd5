// Gated attention: a gate for each feature of the heads; see tests/golden/gated_attention.py.

#include "attn/reference/layers/cache.hpp"
#include "attn/reference/layers/multi_head.hpp"
#include "attn/reference/layers/talking_heads.hpp"

#include "examples.hpp"
#include "step_tables.hpp"
#include "test.hpp"

#include "attn/core/shape.hpp"

using namespace attn;
using namespace attn::test;

namespace {

MultiHeadWeights gated_heads(Numbers& numbers)
{
    MultiHeadWeights weights = random_heads(numbers); // 6 features, heads together as wide
    weights.gate = random_linear(numbers, weights.query.weight.shape(0), weights.value.weight.shape(1));
    return weights;
}

} // namespace

TEST_CASE("an open gate leaves attention as it is, a closed one gives nothing, one between a share",
          "[layers][gated_attention][property]")
{
    Numbers numbers(1);
    const Matrix x = numbers.matrix(4, 6), memory = numbers.matrix(3, 6);
    MultiHeadWeights weights = gated_heads(numbers);
    weights.output->bias.reset();
    MultiHeadWeights plain = weights;
    plain.gate.reset();
    const Matrix expected = multi_head_attention(Sources(x, memory), plain, {.heads = 2}).output;
    const auto with_logit = [&](double logit) {
        MultiHeadWeights gated = weights;
        gated.gate->weight.fill(0);
        gated.gate->bias = Vector(Vector::shape_type{gated.gate->weight.shape(1)}, logit);
        return multi_head_attention(Sources(x, memory), gated, {.heads = 2}).output;
    };
    CHECK(close(with_logit(50), expected));
    CHECK(close(with_logit(0), Matrix(expected / 2)));
    CHECK(close(with_logit(-800), Matrix(expected * 0)));
    CHECK_FALSE(close(multi_head_attention(Sources(x, memory), weights, {.heads = 2}).output, expected));
}

TEST_CASE("the gate is made of the tokens that attend, also where keys and values are in a cache",
          "[layers][gated_attention][cache]")
{
    Numbers numbers(2);
    const Matrix x = numbers.matrix(3, 6), memory = numbers.matrix(4, 6);
    const MultiHeadWeights weights = gated_heads(numbers);
    const KeyValueCache of_memory{linear_by_hand(memory, weights.key), linear_by_hand(memory, weights.value)};
    CHECK(close(cached_cross_attention(x, of_memory, weights, {.heads = 2}).output,
                multi_head_attention(Sources(x, memory), weights, {.heads = 2}).output));
}

TEST_CASE("a gate is made after the heads, and the output map takes what it leaves", "[layers][gated_attention][steps]")
{
    Numbers numbers(3);
    MultiHeadWeights weights = gated_heads(numbers);
    weights.gate->bias.reset();
    const Matrix x = numbers.matrix(2, 6);
    const Recorder recorder =
        recorded([&](const Trace& trace) { multi_head_attention(x, weights, {.heads = 2}, trace); });
    const Lines listed{"gate_weights | (d_model, h_d_v) | ", "gate | (n, h_d_v) | x @ gate_weights",
                       "gated | (n, h_d_v) | merged * sigmoid(gate)",
                       "output | (n, d_model) | gated @ output_weights + output_bias"};
    CHECK(different_among(listed, recorder) == "");

    weights.output.reset();
    const Recorder side_by_side = recorded([&](const Trace& trace) {
        CHECK(same_bits(multi_head_attention(x, weights, {.heads = 2}, trace).output,
                        multi_head_attention(x, weights, {.heads = 2}).output));
    });
    CHECK(row_of("output | (n, d_model) | = gated", side_by_side) == "output | (n, d_model) | = gated");
}

TEST_CASE("a gate of another size is refused, and one where none is computed", "[layers][gated_attention]")
{
    Numbers numbers(4);
    const Matrix x = numbers.matrix(2, 6);
    MultiHeadWeights weights = gated_heads(numbers);
    CHECK_THROWS_WITH(talking_heads_attention(x, {weights, numbers.matrix(2, 2), numbers.matrix(2, 2)}),
                      ContainsSubstring("and without a gate"));
    weights.gate = random_linear(numbers, 6, 5);
    Recorder recorder;
    CHECK_THROWS_WITH(
        multi_head_attention(x, weights, {.heads = 2}, Trace(recorder)),
        ContainsSubstring("multi_head_attention: gate weights (6, 5) do not fit, expected a column for each "
                          "of the ") &&
            ContainsSubstring(" features of 2 heads"));
    CHECK(recorder.steps().empty());
    weights.gate = random_linear(numbers, 5, weights.value.weight.shape(1));
    CHECK_THROWS_WITH(multi_head_attention(x, weights, {.heads = 2}), ContainsSubstring("and gate weights (5, "));
    const KeyValueCache memory{numbers.matrix(2, weights.key.weight.shape(1)),
                               numbers.matrix(2, weights.value.weight.shape(1))};
    CHECK_THROWS_WITH(cached_cross_attention(x, memory, weights, {.heads = 2}),
                      ContainsSubstring("x (2, 6) and gate weights (5, "));
}
