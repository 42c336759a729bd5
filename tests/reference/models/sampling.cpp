#include "attn/reference/models/sampling.hpp"

#include "test.hpp"

#include "attn/core/error.hpp"
#include "attn/reference/ops/softmax.hpp"

#include <cmath>
#include <limits>

using namespace attn;

TEST_CASE("the most likely token has the largest logit, and of equal ones it is the first", "[sampling]")
{
    CHECK(argmax(Vector{1, 3, 2, 3}) == 1);
    CHECK(argmax(Vector{3, 3}) == 0);
    CHECK(argmax(Vector{-5}) == 0);
    CHECK(argmax(Vector{-std::numeric_limits<double>::infinity(), -1e300}) == 1);
    CHECK_THROWS_AS(argmax(Vector{1, NAN}), Error);
}

TEST_CASE("tokens are drawn as often as softmax says, at any temperature", "[sampling]")
{
    const Vector logits{0, 1, -1, 2};
    for (const double temperature : {0.5, 1.0, 3.0}) {
        RandomNumbers numbers(7);
        Vector counts = xt::zeros<double>({4});
        constexpr int draws = 20'000;
        for (int i = 0; i < draws; ++i)
            ++counts(sample(logits, temperature, numbers));
        const Vector expected = softmax(Vector(logits / temperature));
        for (std::size_t token = 0; token < 4; ++token)
            CHECK(std::abs(counts(token) / draws - expected(token)) < 0.015); // about four standard deviations
    }
}

TEST_CASE("at temperature 0 the largest logit is always chosen, and the same seed draws the same tokens", "[sampling]")
{
    RandomNumbers numbers(1), again(3), once_more(3);
    for (int i = 0; i < 20; ++i)
        CHECK(sample(Vector{0, 1e-9, -1}, 0, numbers) == 1);
    for (int i = 0; i < 200; ++i)
        CHECK(sample(Vector{0, 1, 2}, 1, again) == sample(Vector{0, 1, 2}, 1, once_more));
}

TEST_CASE("extreme logits and temperatures still give a token", "[sampling]")
{
    RandomNumbers numbers(2);
    CHECK(sample(Vector{1e308, -1e308}, 1e-300, numbers) == 0);
    CHECK(sample(Vector{5, 5, 5}, 1e6, numbers) < 3);
    CHECK(sample(Vector{-std::numeric_limits<double>::infinity(), 0}, 1, numbers) == 1);
    for (const double wrong : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()})
        CHECK_THROWS_AS(sample(Vector{1, 2}, wrong, numbers), Error);
}
