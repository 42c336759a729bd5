#include "attn/reference/layers/convolution.hpp"

#include "interventions.hpp"
#include "laws.hpp"
#include "test.hpp"

#include "attn/core/shape.hpp"

using namespace attn;
using namespace attn::test;

TEST_CASE("a convolution of width 3 sums over neighbours, each through its own matrix", "[layers][convolution]")
{
    Numbers numbers(1);
    for (const std::size_t n : {1, 2, 5}) {
        const Matrix x = numbers.matrix(n, 3);
        const ConvolutionWeights weights{numbers.matrix(9, 2), numbers.vector(2)};
        const Matrix found = convolution(x, weights);
        for (std::size_t i = 0; i < n; ++i)
            for (std::size_t out = 0; out < 2; ++out) {
                double sum = (*weights.bias)(out);
                for (std::size_t w = 0; w < 3; ++w)
                    for (std::size_t in = 0; in < 3 && i + w >= 1 && i + w - 1 < n; ++in)
                        sum += x(i + w - 1, in) * weights.kernel(3 * w + in, out);
                CHECK(std::abs(found(i, out) - sum) < 1e-12);
            }
    }
}

TEST_CASE("a convolution of width 1 is a linear map", "[layers][convolution]")
{
    Numbers numbers(2);
    const Matrix x = numbers.matrix(4, 3);
    const LinearWeights map = random_linear(numbers, 3, 5);
    CHECK(same_bits(convolution(x, {map.weight, map.bias}), linear(x, map)));
}

TEST_CASE("each convolution lets a change reach half a window further, and no further", "[layers][convolution]")
{
    Numbers numbers(3);
    const Matrix x = numbers.matrix(7, 2);
    Matrix changed = x;
    changed(0, 1) += 1;
    Matrix left = x, right = changed;
    const ConvolutionWeights weights{numbers.matrix(6, 2)};
    for (std::size_t depth = 1; depth < 7; ++depth) {
        left = convolution(left, weights);
        right = convolution(right, weights);
        for (std::size_t i = 0; i < 7; ++i)
            CHECK((row_by_hand(left, i) == row_by_hand(right, i)) == (i > depth));
    }
}

TEST_CASE("a convolution of a batch is that of each sequence, traced or not", "[layers][convolution][batch]")
{
    Numbers numbers(4);
    const Tensor3 x = numbers.tensor3(3, 4, 2);
    for (const std::size_t width : {1, 3, 5}) {
        const ConvolutionWeights weights{numbers.matrix(2 * width, 3)};
        check_batch(x, [&](const auto& tokens, auto) { return convolution(tokens, weights); });
        traced([&](const Trace& trace) { return convolution(x, weights, {}, trace); });
    }
}

TEST_CASE("after any step is replaced, everything else of a convolution follows from it",
          "[layers][convolution][interventions]")
{
    Numbers numbers(6);
    const Tensor3 x = numbers.tensor3(2, 4, 2);
    const Matrix sequence = numbers.matrix(4, 2);
    for (const std::size_t width : {1, 3}) {
        const ConvolutionWeights biased{numbers.matrix(2 * width, 3), numbers.vector(3)}, plain{biased.kernel};
        const auto run = [&](const Trace& trace) { convolution(x, biased, {}, trace); };
        CHECK(expect_replacements_used(run) >= 10);
        expect_roundings_used(run);
        expect_replacements_used([&](const Trace& trace) { convolution(sequence, plain, {}, trace); });
    }
}

TEST_CASE("a convolution with a stride gives every so many outputs of the one without", "[layers][convolution]")
{
    Numbers numbers(17);
    for (const std::size_t n : {1, 4, 5}) {
        const Tensor3 x = numbers.tensor3(2, n, 3);
        const ConvolutionWeights weights{numbers.matrix(9, 2), numbers.vector(2)};
        const Tensor3 all = convolution(x, weights);
        for (const std::size_t stride : {1, 2, 3, 7}) {
            const Tensor3 every = xt::view(all, xt::all(), xt::range(std::size_t{0}, n, stride), xt::all());
            const Tensor3 strided = convolution(x, weights, {.stride = stride});
            REQUIRE(strided.shape() == every.shape()); // bits can differ: a BLAS adds fewer rows in another order
            CHECK(xt::amax(xt::abs(strided - every))() <= 1e-14);
            CHECK(wrong_steps(recorded([&](const Trace& trace) {
                      (void)convolution(x, weights, {.stride = stride}, trace);
                  })).empty());
        }
    }
    CHECK_THROWS_WITH(convolution(numbers.matrix(4, 3), {numbers.matrix(9, 2)}, {.stride = 0}),
                      "convolution: the stride is 0, expected at least 1");
}

TEST_CASE("a convolution says what does not fit", "[layers][convolution][error]")
{
    Numbers numbers(5);
    const Matrix x = numbers.matrix(4, 3);
    CHECK_THROWS_WITH(convolution(x, {numbers.matrix(6, 2)}),
                      "convolution: kernel (6, 2) and x (4, 3) do not fit, expected d_in = 3 rows for each of an odd "
                      "number of tokens");
    CHECK_THROWS_AS(convolution(x, {numbers.matrix(7, 2)}), ShapeError);
    CHECK_THROWS_AS(convolution(x, {numbers.matrix(0, 2)}), ShapeError);
    CHECK_THROWS_WITH(convolution(x, {numbers.matrix(9, 2), numbers.vector(3)}),
                      ContainsSubstring("must agree in d_out"));
    CHECK_THROWS_WITH(convolution(numbers.matrix(0, 3), {numbers.matrix(9, 2)}), ContainsSubstring("no tokens"));
}
