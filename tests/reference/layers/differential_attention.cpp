#include "attn/reference/layers/differential_attention.hpp"

#include "laws.hpp"
#include "step_tables.hpp"
#include "test.hpp"

#include "attn/core/shape.hpp"
#include "attn/formula/gradient.hpp"
#include "attn/reference/ops/reduce.hpp"

using namespace attn;
using namespace attn::test;

namespace {

/// Maps of d_k = 2 features, and values of 4.
DifferentialAttentionWeights random_weights(Numbers& numbers, std::size_t heads)
{
    MultiHeadWeights maps = random_heads(numbers, {.h_d_k = 4 * heads, .h_d_v = 4 * heads});
    Vector q1 = numbers.vector(2), k1 = numbers.vector(2), q2 = numbers.vector(2), k2 = numbers.vector(2);
    return {std::move(maps), std::move(q1), std::move(k1), std::move(q2), std::move(k2), {numbers.vector(4)}};
}

Recorder small_example(const DifferentialAttentionOptions& options = {})
{
    Numbers numbers(1);
    const Matrix x = numbers.matrix(3, 6);
    const DifferentialAttentionWeights weights = random_weights(numbers, options.heads);
    return recorded([&](const Trace& trace) { differential_attention(x, weights, options, trace); });
}

/// exp(q1 . k1) - exp(q2 . k2) + lambda_init
double lambda_by_hand(const DifferentialAttentionWeights& w, double lambda_init)
{
    double first = 0, second = 0;
    for (std::size_t i = 0; i < w.lambda_q1.size(); ++i) {
        first += w.lambda_q1(i) * w.lambda_k1(i);
        second += w.lambda_q2(i) * w.lambda_k2(i);
    }
    return std::exp(first) - std::exp(second) + lambda_init;
}

} // namespace

TEST_CASE("the steps of differential_attention() are the ones that its doc comment lists", "[layers][steps][source]")
{
    // The table is without the steps of the norm, which are in its own table.
    const Recorder recorder = small_example();
    const Lines table = promised("reference/layers/differential_attention.hpp", "differential_attention");
    CHECK(different_rows(table, recorder, "differential_attention") == "");
    CHECK(recorder.steps().front().options ==
          StepOptions{{"heads", "1"}, {"lambda_init", "0.2"}, {"mask", "none"}, {"scale", "1/sqrt(d_k)"}});
}

TEST_CASE("the steps of differential_attention() follow from their formulas, and its gradients are differences",
          "[layers][differential_attention][gradient]")
{
    const Recorder recorder = small_example({.heads = 2, .causal = Causal::bottom_right});
    CHECK(wrong_steps(recorder) == std::vector<std::string>{});
    for (const formula::GradientCheck& input : formula::check_gradients(formula::gradients(recorder.recording()))) {
        CAPTURE(input.input);
        CHECK(input.agrees());
    }
}

TEST_CASE("a row of differential weights sums to one minus lambda", "[layers][differential_attention][property]")
{
    Numbers numbers(2);
    const Matrix x = numbers.matrix(5, 6);
    const DifferentialAttentionWeights weights = random_weights(numbers, 3);
    for (const double lambda_init : {0.2, 0.8}) {
        const MultiHead found = differential_attention(
            x, weights, {.heads = 3, .lambda_init = lambda_init, .causal = Causal::bottom_right});
        for (const Matrix& of_head : found.weights)
            for (std::size_t i = 0; i < 5; ++i)
                CHECK(xt::sum(xt::row(of_head, static_cast<std::ptrdiff_t>(i)))() ==
                      Approx(1 - lambda_by_hand(weights, lambda_init)));
    }
}

TEST_CASE("two equal maps cancel where lambda is one, and only the bias of the output map is left",
          "[layers][differential_attention][property]")
{
    Numbers numbers(3);
    const Matrix x = numbers.matrix(5, 6);
    DifferentialAttentionWeights weights = random_weights(numbers, 1);
    for (LinearWeights* map : {&weights.maps.query, &weights.maps.key}) {
        xt::view(map->weight, xt::all(), xt::range(2, 4)) = xt::view(map->weight, xt::all(), xt::range(0, 2));
        xt::view(*map->bias, xt::range(2, 4)) = xt::view(*map->bias, xt::range(0, 2));
    }
    weights.lambda_q2 = weights.lambda_q1;
    weights.lambda_k2 = weights.lambda_k1;
    const MultiHead found = differential_attention(x, weights, {.lambda_init = 1});
    CHECK(close(found.weights[0], Matrix(Matrix::shape_type{5, 5}, 0.0), 0));
    for (std::size_t i = 0; i < 5; ++i)
        for (std::size_t j = 0; j < 6; ++j)
            CHECK(found.output(i, j) == (*weights.maps.output->bias)(j));
}

TEST_CASE("under a causal mask, a later token changes no earlier output of differential attention",
          "[layers][differential_attention][mask]")
{
    Numbers numbers(5);
    const Matrix x = numbers.matrix(5, 6);
    const DifferentialAttentionWeights weights = random_weights(numbers, 2);
    check_causal(x, [&](const Matrix& tokens) {
        return differential_attention(tokens, weights, {.heads = 2, .causal = Causal::bottom_right});
    });
}

TEST_CASE("a query that can attend to nothing has differential weights of 0", "[layers][differential_attention][mask]")
{
    Numbers numbers(6);
    Mask mask = causal_by_hand(4);
    mask(0, 0) = false;
    const MultiHead found =
        differential_attention(numbers.matrix(4, 6), random_weights(numbers, 2), {.heads = 2, .mask = mask});
    for (const Matrix& weights : found.weights)
        for (std::size_t i = 0; i < 4; ++i)
            for (std::size_t j = 0; j < 4; ++j)
                CHECK((mask(i, j) || weights(i, j) == 0));
    CHECK(std::isfinite(sum_all(found.output)));
}

TEST_CASE("differential attention of a batch gives what each sequence alone gives", "[layers][differential_attention]")
{
    Numbers numbers(7);
    const Tensor3 x = numbers.tensor3(3, 4, 6);
    const DifferentialAttentionWeights weights = random_weights(numbers, 2);
    const BatchMask mask = random_batch_mask(numbers, 3, 4, 4);
    check_batch(x, [&](const auto& tokens, const auto& own) {
        return differential_attention(tokens, weights, {.heads = 2, .mask = own(mask)});
    });
}

TEST_CASE("differential attention refuses what doesn't fit, in words", "[layers][differential_attention]")
{
    Numbers numbers(8);
    const Matrix x = numbers.matrix(4, 6);
    const DifferentialAttentionWeights right = random_weights(numbers, 2);
    const auto with = [&](const auto& change, std::size_t heads = 2) {
        DifferentialAttentionWeights weights = right;
        change(weights);
        return differential_attention(x, weights, {.heads = heads});
    };
    const auto nothing = [](DifferentialAttentionWeights&) {};
    CHECK_THROWS_WITH(differential_attention(numbers.matrix(4, 5), right, {.heads = 2}),
                      ContainsSubstring("x (4, 5) and query weights (6, 8) must agree in d_model"));
    CHECK_THROWS_WITH(with(nothing, 3),
                      ContainsSubstring("query weights (6, 8) can't be divided evenly among 3 heads"));
    CHECK_THROWS_WITH(with(nothing, 8), ContainsSubstring("query weights (6, 8) of 8 heads can't be halved"));
    CHECK_THROWS_WITH(with([&](auto& w) { w.lambda_k2 = numbers.vector(3); }),
                      ContainsSubstring("lambda_k2 (3,) does not fit, expected (2,)"));
    CHECK_THROWS_WITH(with([&](auto& w) { w.norm.gain = numbers.vector(8); }),
                      ContainsSubstring("the gain of the norm (8,) does not fit, expected (4,)"));
    CHECK_THROWS_WITH(with([&](auto& w) { w.maps.key_norms = {{numbers.vector(2)}}; }),
                      ContainsSubstring("it takes plain maps"));
    CHECK_THROWS_AS(with([&](auto& w) { w.maps.output->weight = numbers.matrix(5, 6); }), ShapeError);
    CHECK_THROWS_AS(differential_attention(x, right, {.heads = 2, .mask = Mask(Mask::shape_type{3, 4}, true)}),
                    ShapeError);
}

TEST_CASE("traced differential attention is bit for bit that without a trace", "[layers][differential_attention]")
{
    Numbers numbers(9);
    const Matrix x = numbers.matrix(4, 6);
    const DifferentialAttentionWeights weights = random_weights(numbers, 2);
    const DifferentialAttentionOptions options{.heads = 2, .causal = Causal::bottom_right, .scale = 0.3};
    traced([&](const Trace& trace) { return differential_attention(x, weights, options, trace); });
}
