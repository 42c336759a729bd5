#include "attn/reference/layers/linear.hpp"

#include "laws.hpp"
#include "test.hpp"

#include "attn/core/shape.hpp"

using namespace attn;
using namespace attn::test;

TEST_CASE("a linear map is x W + b, token by token, at sizes zero and one too", "[layers][linear]")
{
    Numbers numbers(1);
    for (const std::size_t n : {0, 1, 3})
        for (const std::size_t d_in : {1, 2, 5})
            for (const std::size_t d_out : {1, 4}) {
                CAPTURE(n, d_in, d_out);
                const Matrix x = numbers.matrix(n, d_in);
                const LinearWeights weights = random_linear(numbers, d_in, d_out);
                CHECK(close(linear(x, weights), linear_by_hand(x, weights)));
            }
}

TEST_CASE("the weight of a linear map has a row for each feature that comes in", "[layers][linear]")
{
    const LinearWeights weights{Matrix{{1, 2, 3}, {10, 20, 30}}, Vector{100, 200, 300}};
    CHECK(same_bits(linear(Matrix{{1, 1}, {0, 2}}, weights), Matrix{{111, 222, 333}, {120, 240, 360}}));
}

TEST_CASE("without a bias, a linear map takes zero to zero", "[layers][linear]")
{
    Numbers numbers(2);
    const LinearWeights unbiased = random_linear(numbers, 3, 4, false);
    const LinearWeights biased{unbiased.weight, numbers.vector(4)};
    const Matrix zero(Matrix::shape_type{2, 3}, 0.0);
    CHECK(same_bits(linear(zero, unbiased), Matrix(Matrix::shape_type{2, 4}, 0.0)));
    CHECK_FALSE(same_bits(linear(zero, biased), Matrix(Matrix::shape_type{2, 4}, 0.0)));
}

TEST_CASE("a linear map of a batch is the map of each sequence by itself", "[layers][linear][batch]")
{
    Numbers numbers(3);
    const Tensor3 x = numbers.tensor3(3, 4, 5);
    for (const bool is_biased : {true, false}) {
        const LinearWeights weights = random_linear(numbers, 5, 2, is_biased);
        REQUIRE(shape_of(linear(x, weights)) == Shape{3, 4, 2});
        check_batch(x, [&](const auto& tokens, auto) { return linear(tokens, weights); });
    }
}

TEST_CASE("a linear map's steps have the names that its caller gives, and a formula that holds", "[layers][linear]")
{
    Numbers numbers(4);
    const Matrix x = numbers.matrix(2, 3);
    const LinearWeights weights = random_linear(numbers, 3, 4);
    const LinearSteps steps{"memory", "key", "d_memory", "d_k", "m"};
    const Recorder recorder = recorded([&](const Trace& trace) {
        static_cast<void>(trace.input("memory[m, d_memory]", x));
        CHECK(same_bits(linear(x, weights, steps, trace), linear(x, weights)));
    });
    REQUIRE(recorder.steps().size() == 4);
    CHECK(recorder.steps()[1].path == "key_weights");
    CHECK(recorder.steps()[2].path == "key_bias");
    CHECK(recorder.steps()[3].path == "key");
    CHECK(recorder.steps()[3].formula == "memory @ key_weights + key_bias");
    CHECK(recorder.steps()[3].axes == std::vector<std::string>{"m", "d_k"});
    CHECK(wrong_steps(recorder).empty());
}

TEST_CASE("a traced linear map gives the same bits, for a batch and without bias too", "[layers][linear][trace]")
{
    Numbers numbers(5);
    const Tensor3 x = numbers.tensor3(2, 3, 4);
    const LinearWeights weights = random_linear(numbers, 4, 5, false);
    const Recorder recorder = recorded([&](const Trace& trace) {
        static_cast<void>(trace.input("x[b, n, d_in]", x));
        CHECK(same_bits(linear(x, weights, {}, trace), linear(x, weights)));
    });
    REQUIRE(recorder.steps().size() == 3);
    CHECK(recorder.steps()[2].formula == "x @ weight");
    CHECK(recorder.steps()[2].axes == std::vector<std::string>{"b", "n", "d_out"});
    CHECK(wrong_steps(recorder).empty());
}

TEST_CASE("a linear map refuses what disagrees, under the caller's name for it", "[layers][linear]")
{
    const Matrix x(Matrix::shape_type{2, 3});
    const Matrix weight(Matrix::shape_type{4, 5});
    CHECK_THROWS_AS(linear(x, {weight}), ShapeError);
    CHECK_THROWS_WITH(linear(x, {weight}), ContainsSubstring("linear: x (2, 3) and weight (4, 5) must agree in d_in"));
    CHECK_THROWS_WITH(linear(x, {weight}, {.input = "merged"}), ContainsSubstring("merged (2, 3)"));
    CHECK_THROWS_WITH(linear(Tensor3(Tensor3::shape_type{1, 2, 3}), {weight}), ContainsSubstring("x (1, 2, 3)"));
    const LinearWeights long_bias{Matrix(Matrix::shape_type{3, 5}), Vector(Vector::shape_type{6})};
    CHECK_THROWS_AS(linear(x, long_bias), ShapeError);
    CHECK_THROWS_WITH(linear(x, long_bias), ContainsSubstring("weight (3, 5) and bias (6,) must agree in d_out"));
    const LinearWeights broadcast_bias{Matrix(Matrix::shape_type{3, 5}), Vector{1}};
    CHECK_THROWS_AS(linear(x, broadcast_bias), ShapeError);
}
