// Attention sinks: in one head, in heads, in multi-head attention; see tests/golden/sinks.py.

#include "attn/reference/attention/dot_product.hpp"
#include "attn/reference/attention/additive.hpp"
#include "attn/reference/layers/cache.hpp"
#include "attn/reference/layers/talking_heads.hpp"

#include "reference/layers/examples.hpp"
#include "step_tables.hpp"
#include "test.hpp"

#include "attn/formula/gradient.hpp"
#include "attn/formula/verify.hpp"
#include "attn/reference/ops/batch.hpp"
#include "attn/reference/ops/heads.hpp"
#include "attn/reference/ops/matmul.hpp"

using namespace attn;
using namespace attn::test;

namespace {

/// The weights of softmax with one more score, by hand.
Matrix weights_by_hand(const Matrix& scores, double sink)
{
    Matrix weights = xt::exp(scores);
    for (std::size_t i = 0; i < weights.shape(0); ++i) {
        double total = std::exp(sink);
        for (std::size_t j = 0; j < weights.shape(1); ++j)
            total += weights(i, j);
        for (std::size_t j = 0; j < weights.shape(1); ++j)
            weights(i, j) /= total;
    }
    return weights;
}

MultiHeadWeights heads_with_sinks(Numbers& numbers, std::size_t heads)
{
    MultiHeadWeights weights = random_heads(numbers);
    weights.sinks = numbers.vector(heads);
    return weights;
}

} // namespace

TEST_CASE("the steps with a sink are the ones that WeighingOptions lists", "[attention][sinks][steps][source]")
{
    Numbers numbers(1);
    const Mask mask = numbers.mask(2, 3);
    const Recorder recorder = recorded([&](const Trace& trace) {
        scaled_dot_product_attention(numbers.matrix(2, 4), numbers.matrix(3, 4), numbers.matrix(3, 2),
                                     {.mask = mask, .sinks = Vector{0.5}}, trace);
    });
    const Lines listed =
        with_numbers(promised("reference/attention/weigh.hpp", "struct WeighingOptions"), {{"N", "2"}, {"M", "3"}});
    REQUIRE(listed.size() == 5);
    const Lines found = kept(recorder);
    REQUIRE(found.size() == 13);
    CHECK(different_rows(listed, Lines(found.begin() + 7, found.begin() + 12)) == "");
    CHECK(recorder.steps().back().options ==
          StepOptions{{"mask", "given"}, {"bias", "none"}, {"scale", "1/sqrt(d_k)"}, {"sinks", "given"}});
}

TEST_CASE("a sink takes a share of each row, in every kind of attention that has a softmax", "[attention][sinks]")
{
    Numbers numbers(2);
    const Matrix queries = numbers.matrix(4, 3), keys = numbers.matrix(5, 3), values = numbers.matrix(5, 2);
    const Attention found = dot_product_attention(queries, keys, values, {.sinks = Vector{0.75}});
    CHECK(close(found.weights, weights_by_hand(matmul(queries, transpose(keys)), 0.75)));
    CHECK(close(found.context, matmul(found.weights, values)));
    const AdditiveWeights additive{numbers.matrix(3, 6), numbers.matrix(3, 6), numbers.vector(6)};
    const Matrix plain = additive_attention(queries, keys, values, additive).weights,
                 shared = additive_attention(queries, keys, values, additive, {.sinks = Vector{0.0}}).weights;
    for (std::size_t i = 0; i < 4; ++i)
        for (std::size_t j = 1; j < 5; ++j) // what is left is divided as before
            CHECK(shared(i, j) / shared(i, 0) == Approx(plain(i, j) / plain(i, 0)).epsilon(1e-12));
}

TEST_CASE("a query that can attend to nothing has weights and context 0 with a sink, too", "[attention][sinks][mask]")
{
    Numbers numbers(3);
    const Mask mask{{false, false}, {true, false}};
    const Attention found = scaled_dot_product_attention(numbers.matrix(2, 3), numbers.matrix(2, 3), Matrix{{1}, {2}},
                                                         {.mask = mask, .sinks = Vector{-800.0}});
    CHECK(same_bits(found.weights, Matrix{{0, 0}, {1, 0}})); // and a sink far below the scores has no share
    CHECK(same_bits(found.context, Matrix{{0}, {1}}));
}

TEST_CASE("each head has its own sink: multi-head attention is its heads, with a cache, too",
          "[layers][multi_head][sinks]")
{
    Numbers numbers(4);
    const Matrix x = numbers.matrix(5, 6);
    MultiHeadWeights weights = heads_with_sinks(numbers, 2);
    weights.output.reset();
    const MultiHeadOptions options{.heads = 2, .causal = Causal::bottom_right};
    const MultiHead all = multi_head_attention(x, weights, options);
    const Matrix query = linear_by_hand(x, weights.query), key = linear_by_hand(x, weights.key),
                 value = linear_by_hand(x, weights.value);
    for (std::size_t i = 0; i < 2; ++i) {
        const auto head = [&](const Matrix& packed) {
            const std::size_t width = packed.shape(1) / 2;
            return columns_by_hand(packed, i * width, (i + 1) * width);
        };
        const Attention alone =
            scaled_dot_product_attention(head(query), head(key), head(value),
                                         {.causal = Causal::bottom_right, .sinks = Vector{(*weights.sinks)(i)}});
        CHECK(close(all.weights[i], alone.weights));
        CHECK(close(head(all.output), alone.context));
    }

    const auto first = cached_self_attention(Matrix(xt::view(x, xt::range(0, 3), xt::all())), {}, weights, options);
    const auto then =
        cached_self_attention(Matrix(xt::view(x, xt::range(3, 5), xt::all())), first.cache, weights, options);
    CHECK(close(then.output, Matrix(xt::view(all.output, xt::range(3, 5), xt::all()))));
    const Tensor3 batch = batch_of(x, 1, 5);
    CHECK(close(multi_head_attention(batch, weights, options).output, batch_of(all.output, 1, 5)));
}

TEST_CASE("the sinks of all heads are one step with one gradient", "[layers][multi_head][sinks][gradient]")
{
    Numbers numbers(5);
    const MultiHeadWeights weights = heads_with_sinks(numbers, 2);
    const Tensor3 x = numbers.tensor3(2, 3, 6);
    const Recorder recorder =
        recorded([&](const Trace& trace) { multi_head_attention(x, weights, {.heads = 2}, trace); });
    CHECK(wrong_steps(recorder) == std::vector<std::string>{});
    const Lines steps = kept(recorder);
    for (const char* line :
         {"sinks | (h,) | ", "head.1.sinks | (one,) | sinks[1:2]",
          "head.1.sink_scores | (b, n, one) | repeat(repeat(sinks[None, None], 2, axis=0), 3, axis=1)"})
        CHECK(std::ranges::count(steps, line) == 1);
    const Recording result = formula::gradients(recorder.recording());
    CHECK(std::ranges::count(result.steps, "grad.sinks", &Step::path) == 1);
    for (const formula::GradientCheck& check : formula::check_gradients(result)) {
        CAPTURE(check.input, check.by_gradient, check.by_differences, check.error);
        CHECK(check.agrees());
    }
}

TEST_CASE("sinks that do not fit, and sinks that would have no effect, are refused", "[attention][sinks]")
{
    Numbers numbers(6);
    const Matrix x = numbers.matrix(3, 6);
    CHECK_THROWS_WITH(scaled_dot_product_attention(x, x, x, {.sinks = Vector{1.0, 2.0}}),
                      "attention: sinks (2,) are for 2 heads, but there is 1");
    const Tensor4 heads = as_heads(numbers.tensor3(6, 2, 2), 2, 3);
    CHECK_THROWS_WITH(scaled_dot_product_attention(heads, heads, heads, {.sinks = Vector{1.0}}),
                      "attention: sinks (1,) are for 1 heads, but there are 3");
    CHECK_THROWS_WITH(
        dot_product_attention(x, x, x, {.normalization = Normalization::none, .sinks = Vector{1.0}}),
        "attention: sinks take a share of softmax, and the scores are not normalised: leave the sinks out");
    MultiHeadWeights weights = heads_with_sinks(numbers, 3);
    CHECK_THROWS_WITH(multi_head_attention(x, weights, {.heads = 2}),
                      "attention: sinks (3,) are for 3 heads, but there are 2");
    CHECK_FALSE(is_plain(weights, HeadPositions::none));
    CHECK_THROWS_WITH(talking_heads_attention(x, {weights, numbers.matrix(2, 2), numbers.matrix(2, 2)}),
                      ContainsSubstring("without norms of queries and keys or sinks"));
}
