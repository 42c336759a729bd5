#include "attn/reference/models/sampling.hpp"

#include "test.hpp"

#include "attn/core/error.hpp"
#include "attn/core/recorder.hpp"
#include "attn/core/shape.hpp"
#include "attn/formula/verify.hpp"
#include "attn/reference/ops/softmax.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

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

// ------------------------------------------------------------------------------------------------------ what can come next

namespace {

template <class T>
bool is_close(const T& found, const T& expected, double tolerance)
{
    return found.shape() == expected.shape() &&
           std::equal(found.begin(), found.end(), expected.begin(),
                      [&](double a, double b) { return std::abs(a - b) <= tolerance; });
}

double total(const Vector& numbers) { return std::accumulate(numbers.begin(), numbers.end(), 0.0); }

Matrix rows_of(RandomNumbers& numbers, std::size_t n, std::size_t vocabulary)
{
    return softmax(numbers.matrix(n, vocabulary, 2));
}

/// How many tokens of a row can come.
std::size_t left_in(const Matrix& probabilities, std::size_t row)
{
    std::size_t count = 0;
    for (std::size_t token = 0; token < probabilities.shape(1); ++token)
        count += probabilities(row, token) > 0;
    return count;
}

} // namespace

TEST_CASE("each cut leaves the tokens that its paper says, in proportion, and the first of equal ones", "[sampling]")
{
    const Matrix logits{{std::log(0.5), std::log(0.3), std::log(0.15), std::log(0.05)}};
    const auto cut = [&](const SamplingOptions& options) { return token_probabilities(logits, options); };
    CHECK(is_close(cut({}), Matrix{{0.5, 0.3, 0.15, 0.05}}, 1e-15));
    CHECK(is_close(cut({.top_k = 2}), Matrix{{0.625, 0.375, 0, 0}}, 1e-15));
    CHECK(is_close(cut({.top_p = 0.7}), Matrix{{0.625, 0.375, 0, 0}}, 1e-15)); // 0.5 is less than 0.7, 0.8 is not
    CHECK(is_close(cut({.top_p = 0.4}), Matrix{{1, 0, 0, 0}}, 1e-15));         // the most likely one always stays
    CHECK(is_close(cut({.min_p = 0.25}), Matrix{{0.5 / 0.95, 0.3 / 0.95, 0.15 / 0.95, 0}}, 1e-15));
    CHECK(is_close(cut({.temperature = 0}), Matrix{{1, 0, 0, 0}}, 0));
    // The nucleus is that of what top-k left: 0.5 / 0.8 is no less than 0.6.
    CHECK(is_close(cut({.top_k = 2, .top_p = 0.6}), Matrix{{1, 0, 0, 0}}, 1e-15));
    // The temperature comes first: at 2 the chances are 0.379, 0.294, 0.208, 0.120.
    CHECK(left_in(cut({.temperature = 2, .top_p = 0.7}), 0) == 3);
    // Of equal tokens the first ones; in the second row one has 0.44, so that both are needed.
    const Matrix even = token_probabilities(Matrix{{1, 1, 1, 1}, {0, 2, 2, 0}}, {.top_p = 0.5});
    CHECK(is_close(even, Matrix{{0.5, 0.5, 0, 0}, {0, 0.5, 0.5, 0}}, 1e-15));
}

TEST_CASE("a draw takes the token in whose share its number falls", "[sampling]")
{
    const Vector shares{0, 0.25, 0, 0.75};
    CHECK(draw(shares, 0) == 1);
    CHECK(draw(shares, 0.24) == 1);
    CHECK(draw(shares, 0.25) == 3);
    CHECK(draw(Vector{0.5, 0.25, 0}, 0.9) == 1); // what sums to less than 1 never gives a token that can't come
    for (const double wrong : {-0.1, 1.0, std::nan("")})
        CHECK_THROWS_AS(draw(shares, wrong), Error);
    CHECK_THROWS_AS(draw(Vector{0, 0}, 0.5), Error);
    CHECK_THROWS_AS(draw(Vector{1.5, -0.5}, 0.99), Error);
    CHECK_THROWS_AS(draw(Vector{NAN, 1}, 0.5), Error);
}

TEST_CASE("every step of the choice of tokens is what its formula says", "[sampling][verify]")
{
    RandomNumbers numbers(1);
    const Matrix logits = numbers.matrix(3, 7, 4);
    for (const SamplingOptions& options :
         {SamplingOptions{}, SamplingOptions{.temperature = 0}, SamplingOptions{.temperature = 2, .top_k = 4},
          SamplingOptions{.top_p = 0.8}, SamplingOptions{.min_p = 0.3},
          SamplingOptions{.temperature = 0.5, .top_k = 5, .top_p = 0.9, .min_p = 0.1}}) {
        Recorder run;
        const Matrix found = token_probabilities(logits, options, Trace(run));
        CHECK(formula::verify(run.recording()).passed());
        for (std::size_t i = 0; i < 3; ++i)
            CHECK((std::abs(total(Vector(xt::row(found, i))) - 1) <= 1e-14));
    }
}

TEST_CASE("what can't be meant is refused by the choice of tokens", "[sampling]")
{
    const Matrix logits{{1, 2, 3}};
    for (const SamplingOptions& wrong :
         {SamplingOptions{.temperature = -1}, SamplingOptions{.temperature = NAN},
          SamplingOptions{.temperature = infinity}, SamplingOptions{.top_k = 0}, SamplingOptions{.top_k = 4},
          SamplingOptions{.top_p = 0}, SamplingOptions{.top_p = 1.1}, SamplingOptions{.top_p = NAN},
          SamplingOptions{.min_p = -0.1}, SamplingOptions{.min_p = 1.1}, SamplingOptions{.min_p = NAN}})
        CHECK_THROWS_AS(token_probabilities(logits, wrong), Error);
    CHECK_THROWS_AS(token_probabilities(Matrix{{1, NAN}}), Error);
    CHECK_THROWS_AS(token_probabilities(Matrix{{1, infinity}}), Error);
    CHECK_THROWS_AS(token_probabilities(Matrix{{-infinity, -infinity}}), Error);
    CHECK(is_close(token_probabilities(Matrix{{-infinity, 0}}, {.top_p = 0.5}), Matrix{{0, 1}}, 0));
}

// ----------------------------------------------------------------------------------------------------------- speculation

namespace {

/// Two models of three tokens: the probabilities after each text of up to two tokens, as rows.
struct Tables {
    static constexpr std::size_t vocabulary = 3;
    Matrix first, second, third; // after nothing, after one token, after two

    explicit Tables(RandomNumbers& numbers)
        : first(rows_of(numbers, 1, 3)), second(rows_of(numbers, 3, 3)), third(rows_of(numbers, 9, 3))
    {
    }
    double of(std::size_t a, std::size_t b, std::size_t c) const
    {
        return first(0, a) * second(a, b) * third(3 * a + b, c);
    }
};

} // namespace

TEST_CASE("speculation gives each text the target's probability: all drafts and all answers, enumerated", "[sampling]")
{
    RandomNumbers numbers(5);
    const Tables target(numbers), draft(numbers);
    std::array<double, 27> found{};
    double least = 1;
    for (std::size_t a = 0; a < 3; ++a)
        for (std::size_t b = 0; b < 3; ++b) {
            Matrix q(Matrix::shape_type{2, 3}), p(Matrix::shape_type{3, 3});
            xt::row(q, 0) = xt::row(draft.first, 0);
            xt::row(q, 1) = xt::row(draft.second, a);
            xt::row(p, 0) = xt::row(target.first, 0);
            xt::row(p, 1) = xt::row(target.second, a);
            xt::row(p, 2) = xt::row(target.third, 3 * a + b);
            const Integers drafted{static_cast<std::int64_t>(a), static_cast<std::int64_t>(b)};
            const double first = std::min(1.0, p(0, a) / q(0, a)), second = std::min(1.0, p(1, b) / q(1, b));
            least = std::min({least, first, second});
            // Numbers below a ratio accept and others reject: 0 is below each, and a number close to 1 above each that is less than 1.
            for (const double u : {0.0, 1 - 1e-12})
                for (const double v : {0.0, 1 - 1e-12}) {
                    const double share =
                        q(0, a) * q(1, b) * (u == 0 ? first : 1 - first) * (v == 0 ? second : 1 - second);
                    if (share == 0)
                        continue; // it can't come to that
                    const Speculation one = speculate(drafted, q, p, {u, v});
                    CHECK(one.accepted == (u > 0 ? 0U : v > 0 ? 1U : 2U));
                    // The tokens after those that stand are the target's own.
                    for (std::size_t next = 0; next < 3; ++next)
                        for (std::size_t i = 0; i < 3; ++i)
                            for (std::size_t j = 0; j < 3; ++j) {
                                if (one.accepted == 0)
                                    found[9 * next + 3 * i + j] +=
                                        share * one.next(next) * target.second(next, i) * target.third(3 * next + i, j);
                                else if (one.accepted == 1 && j == 0)
                                    found[9 * a + 3 * next + i] +=
                                        share * one.next(next) * target.third(3 * a + next, i);
                                else if (one.accepted == 2 && i == 0 && j == 0)
                                    found[9 * a + 3 * b + next] += share * one.next(next);
                            }
                }
        }
    CHECK(least < 0.5); // something is rejected
    for (std::size_t a = 0; a < 3; ++a)
        for (std::size_t b = 0; b < 3; ++b)
            for (std::size_t c = 0; c < 3; ++c)
                CHECK(std::abs(found[9 * a + 3 * b + c] - target.of(a, b, c)) <= 1e-14);
}

TEST_CASE("every step of speculation is what its formula says, whatever is accepted", "[sampling][verify]")
{
    const Matrix draft{{0.5, 0.25, 0.25}, {0.25, 0.25, 0.5}}, target{{0.25, 0.5, 0.25}, {0.5, 0.25, 0.25}, {0, 0, 1}};
    for (const Vector& uniform : {Vector{0.9, 0.9}, Vector{0.1, 0.9}, Vector{0.1, 0.1}}) {
        Recorder run;
        const Speculation one = speculate({0, 2}, draft, target, uniform, Trace(run));
        CHECK(formula::verify(run.recording()).passed());
        CHECK(std::abs(total(one.next) - 1) <= 1e-15);
    }
    CHECK(is_close(speculate({0, 2}, draft, target, {0.9, 0.9}).next, Vector{0, 1, 0}, 0));
    CHECK(is_close(speculate({0, 2}, draft, target, {0.1, 0.9}).next, Vector{1, 0, 0}, 0));
    CHECK(is_close(speculate({0, 2}, draft, target, {0.1, 0.1}).next, Vector{0, 0, 1}, 0));
    CHECK(speculate({0}, {{0.5, 0.5}}, {{0.25, 0.75}, {0.5, 0.5}}, {0.5}).accepted ==
          0); // as likely as not: 0.5 is not below 0.5
}

TEST_CASE("guesses that can't be, and numbers that are no probabilities, are refused", "[sampling]")
{
    const Matrix draft{{0.5, 0.5}}, target{{0.5, 0.5}, {0.5, 0.5}};
    CHECK_THROWS_AS(speculate({0, 1}, draft, target, {0.5}), ShapeError);
    CHECK_THROWS_AS(speculate({0}, draft, draft, {0.5}), ShapeError); // a row too few
    CHECK_THROWS_AS(speculate({0}, draft, {{1, 0, 0}, {1, 0, 0}}, {0.5}), ShapeError);
    CHECK_THROWS_AS(speculate({0}, draft, target, {0.5, 0.5}), ShapeError);
    CHECK_THROWS_AS(speculate(Integers(Integers::shape_type{0}), Matrix(Matrix::shape_type{0, 2}), {{1, 0}},
                              Vector(Vector::shape_type{0})),
                    ShapeError);
    CHECK_THROWS_AS(speculate({2}, draft, target, {0.5}), Error);
    CHECK_THROWS_AS(speculate({-1}, draft, target, {0.5}), Error);
    CHECK_THROWS_AS(speculate({0}, {{0, 1}}, target, {0.5}), Error);         // the draft can't have drawn it
    CHECK_THROWS_AS(speculate({0}, draft, {{-1, 2}, {0, 1}}, {0.5}), Error); // logits
    CHECK_THROWS_AS(speculate({0}, {{NAN, 1}}, target, {0.5}), Error);
    for (const double wrong : {-0.1, 1.0, std::nan("")})
        CHECK_THROWS_AS(speculate({0}, draft, target, {wrong}), Error);
}
