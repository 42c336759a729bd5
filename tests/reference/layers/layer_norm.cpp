#include "attn/reference/layers/layer_norm.hpp"

#include "laws.hpp"
#include "test.hpp"

#include "attn/core/shape.hpp"

using namespace attn;
using namespace attn::test;

namespace {

LayerNormWeights plain(std::size_t d_model)
{
    return {Vector(Vector::shape_type{d_model}, 1.0), Vector(Vector::shape_type{d_model}, 0.0)};
}

} // namespace

TEST_CASE("layer norm is the formula of the paper, number by number", "[layers][layer_norm]")
{
    Numbers numbers(1);
    for (const std::size_t n : {0, 1, 3})
        for (const std::size_t d_model : {1, 2, 7})
            for (const double epsilon : {1e-5, 0.5})
                for (const bool is_biased : {true, false}) {
                    CAPTURE(n, d_model, epsilon, is_biased);
                    const Matrix x = numbers.matrix(n, d_model);
                    const LayerNormWeights weights = random_norm(numbers, d_model, is_biased);
                    CHECK(close(layer_norm(x, weights, {epsilon}), norm_by_hand(x, weights, epsilon)));
                }
}

TEST_CASE("the variance of a layer norm is divided by d_model, not by one less", "[layers][layer_norm]")
{
    CHECK(same_bits(layer_norm(Matrix{{1, 3}, {10, 20}}, plain(2), {0}), Matrix{{-1, 1}, {-1, 1}}));
}

TEST_CASE("epsilon is inside the root, and 1e-5 unless given", "[layers][layer_norm]")
{
    const double two = layer_norm(Matrix{{-1, 1}}, plain(2), {3})(0, 1); // 1 / sqrt(1 + 3)
    CHECK(two == 0.5);
    CHECK(close(layer_norm(Matrix{{-1e-3, 1e-3}}, plain(2)), Matrix{{-std::sqrt(1.0 / 11), std::sqrt(1.0 / 11)}}));
}

TEST_CASE("layer norm without gain and bias gives each token mean 0 and variance 1", "[layers][layer_norm]")
{
    const Matrix y = layer_norm(Numbers(2).matrix(5, 8), plain(8), {0});
    for (std::size_t i = 0; i < 5; ++i) {
        double mean = 0, square = 0;
        for (std::size_t j = 0; j < 8; ++j) {
            mean += y(i, j) / 8;
            square += y(i, j) * y(i, j) / 8;
        }
        CHECK(std::abs(mean) < 1e-14);
        CHECK(std::abs(square - 1) < 1e-13);
    }
}

TEST_CASE("layer norm does not change when a token is scaled and shifted", "[layers][layer_norm]")
{
    Numbers numbers(3);
    const Matrix x = numbers.matrix(3, 6);
    const LayerNormWeights weights = random_norm(numbers, 6);
    CHECK(close(layer_norm(Matrix(x * 4.0 + 7.0), weights, {0}), layer_norm(x, weights, {0})));
}

TEST_CASE("layer norm of a token of equal features is the bias", "[layers][layer_norm]")
{
    const LayerNormWeights weights{Vector{2, 3, 4}, Vector{5, 6, 7}};
    CHECK(same_bits(layer_norm(Matrix{{0.5, 0.5, 0.5}, {0, 0, 0}}, weights), Matrix{{5, 6, 7}, {5, 6, 7}}));
}

TEST_CASE("layer norm is right where the mean is 1e8 times the distances from it", "[layers][layer_norm]")
{
    const double root = std::sqrt(1.5);
    CHECK(close(layer_norm(Matrix{{1e8 - 1, 1e8, 1e8 + 1}}, plain(3), {0}), Matrix{{-root, 0, root}}));
}

TEST_CASE("a layer norm works on each token by itself", "[layers][layer_norm]")
{
    Numbers numbers(4);
    Matrix x = numbers.matrix(3, 5);
    const LayerNormWeights weights = random_norm(numbers, 5);
    const Matrix before = layer_norm(x, weights);
    x(1, 2) += 10;
    const Matrix after = layer_norm(x, weights);
    CHECK(same_bits(row_by_hand(before, 0), row_by_hand(after, 0)));
    CHECK(same_bits(row_by_hand(before, 2), row_by_hand(after, 2)));
    CHECK_FALSE(close(row_by_hand(before, 1), row_by_hand(after, 1)));
}

TEST_CASE("a traced layer norm gives the same bits, and every formula holds", "[layers][layer_norm][trace]")
{
    Numbers numbers(6);
    const Matrix x = numbers.matrix(3, 5);
    const Tensor3 batch = numbers.tensor3(2, 3, 5);
    for (const bool is_biased : {true, false})
        for (const double epsilon : {1e-5, 1e-12, 0.0, 0.1}) {
            CAPTURE(is_biased, epsilon);
            const LayerNormWeights weights = random_norm(numbers, 5, is_biased);
            const auto check = [&](const auto& tokens) {
                const Recorder recorder =
                    traced([&](const Trace& trace) { return layer_norm(tokens, weights, {epsilon}, trace); });
                CHECK(recorder.steps().front().options == StepOptions{{"epsilon", exact_text(epsilon)}});
            };
            check(x);
            check(batch);
        }
}

TEST_CASE("a layer norm refuses a gain and a bias of another size, and does not broadcast", "[layers][layer_norm]")
{
    const Matrix x(Matrix::shape_type{2, 3});
    const LayerNormWeights short_gain{Vector{1}};
    const LayerNormWeights long_bias{Vector{1, 1, 1}, Vector{1, 1, 1, 1}};
    CHECK_THROWS_AS(layer_norm(x, short_gain), ShapeError);
    CHECK_THROWS_WITH(layer_norm(x, short_gain),
                      ContainsSubstring("layer_norm: x (2, 3) and gain (1,) must agree in d_model"));
    CHECK_THROWS_AS(layer_norm(x, long_bias), ShapeError);
    CHECK_THROWS_WITH(layer_norm(x, long_bias), ContainsSubstring("bias (4,) must agree in d_model"));
    CHECK_THROWS_WITH(layer_norm(Tensor3(Tensor3::shape_type{2, 2, 3}), short_gain),
                      ContainsSubstring("x (2, 2, 3) and gain (1,)"));
}
