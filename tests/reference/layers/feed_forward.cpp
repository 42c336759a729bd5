#include "attn/reference/layers/feed_forward.hpp"

#include "layers_by_hand.hpp"
#include "laws.hpp"
#include "test.hpp"

#include "attn/core/choices.hpp"
#include "attn/core/shape.hpp"
#include "attn/reference/layers/gated_feed_forward.hpp"

using namespace attn;
using namespace attn::test;

TEST_CASE("a feed-forward network is two linear maps with the activation between them, number by number",
          "[layers][feed_forward]")
{
    Numbers numbers(1);
    for (const Activation activation : enumerators<Activation>)
        for (const std::size_t d_model : {1, 3, 4})
            for (const std::size_t d_ff : {1, 7})
                for (const bool is_biased : {true, false}) {
                    CAPTURE(name_of(activation), d_model, d_ff, is_biased);
                    const Matrix x = numbers.matrix(3, d_model);
                    const FeedForwardWeights weights = random_feed_forward(numbers, d_model, d_ff, is_biased);
                    CHECK(close(feed_forward(x, weights, {activation}), feed_forward_by_hand(x, weights, activation)));
                }
}

TEST_CASE("a feed-forward network is two convolutions of width 1", "[layers][feed_forward]")
{
    // Channels first, and a kernel with an axis of its width, as convolutions have them.
    const auto convolved = [](const Matrix& channels, const Tensor3& kernel, const Vector& bias) {
        const std::size_t width = kernel.shape(2);
        Matrix result(Matrix::shape_type{kernel.shape(0), channels.shape(1) + 1 - width});
        for (std::size_t out = 0; out < result.shape(0); ++out)
            for (std::size_t place = 0; place < result.shape(1); ++place) {
                result(out, place) = bias(out);
                for (std::size_t in = 0; in < channels.shape(0); ++in)
                    for (std::size_t offset = 0; offset < width; ++offset)
                        result(out, place) += kernel(out, in, offset) * channels(in, place + offset);
            }
        return result;
    };
    const auto kernel_of = [](const Matrix& weight) {
        Tensor3 kernel(Tensor3::shape_type{weight.shape(1), weight.shape(0), 1});
        for (std::size_t in = 0; in < weight.shape(0); ++in)
            for (std::size_t out = 0; out < weight.shape(1); ++out)
                kernel(out, in, 0) = weight(in, out);
        return kernel;
    };
    Numbers numbers(2);
    const Matrix x = numbers.matrix(5, 3);
    const FeedForwardWeights weights = random_feed_forward(numbers, 3, 7);
    Matrix hidden = convolved(transpose_by_hand(x), kernel_of(weights.hidden.weight), *weights.hidden.bias);
    for (double& unit : hidden)
        unit = unit > 0 ? unit : 0;
    const Matrix output = convolved(hidden, kernel_of(weights.output.weight), *weights.output.bias);
    CHECK(close(feed_forward(x, weights), transpose_by_hand(output)));
}

TEST_CASE("a feed-forward network works on each token by itself", "[layers][feed_forward]")
{
    Numbers numbers(3);
    const Matrix x = numbers.matrix(4, 3);
    const FeedForwardWeights weights = random_feed_forward(numbers, 3, 5);
    const std::vector<std::size_t> order{2, 0, 3, 1};
    for (const Activation activation : enumerators<Activation>) {
        CAPTURE(name_of(activation));
        const Matrix y = feed_forward(x, weights, {activation});
        CHECK(close(feed_forward(rows_by_hand(x, order), weights, {activation}), rows_by_hand(y, order)));
        CHECK(close(feed_forward(row_by_hand(x, 2), weights, {activation}), row_by_hand(y, 2)));
    }
}

TEST_CASE("a traced feed-forward network gives the same bits, and every formula holds", "[layers][feed_forward][trace]")
{
    Numbers numbers(5);
    const Matrix x = numbers.matrix(3, 4);
    const Tensor3 batch = numbers.tensor3(2, 3, 4);
    for (const Activation activation : enumerators<Activation>)
        for (const bool is_biased : {true, false}) {
            CAPTURE(name_of(activation), is_biased);
            const FeedForwardWeights weights = random_feed_forward(numbers, 4, 5, is_biased);
            const auto check = [&](const auto& tokens) {
                const Recorder recorder =
                    traced([&](const Trace& trace) { return feed_forward(tokens, weights, {activation}, trace); });
                CHECK(recorder.steps().back().options == StepOptions{{"activation", std::string(name_of(activation))}});
            };
            check(x);
            check(batch);
        }
}

TEST_CASE("activations have the names that a command line has for them", "[layers][feed_forward]")
{
    CHECK(name_of(Activation::relu) == "relu");
    CHECK(name_of(Activation::gelu) == "gelu");
    CHECK(name_of(Activation::gelu_tanh) == "gelu-tanh");
    CHECK(name_of(Activation::silu) == "silu");
    CHECK(name_of(Activation::quick_gelu) == "quick-gelu");
    CHECK(FeedForwardOptions{}.activation == Activation::relu);
    CHECK(GatedFeedForwardOptions{}.activation == Activation::silu);
}

TEST_CASE("a feed-forward network refuses tokens and maps that disagree", "[layers][feed_forward]")
{
    Numbers numbers(6);
    FeedForwardWeights weights = random_feed_forward(numbers, 3, 5);
    CHECK_THROWS_AS(feed_forward(numbers.matrix(2, 4), weights), ShapeError);
    CHECK_THROWS_WITH(feed_forward(numbers.matrix(2, 4), weights), ContainsSubstring("x (2, 4) and weight (3, 5)"));
    weights.output = random_linear(numbers, 6, 3);
    CHECK_THROWS_AS(feed_forward(numbers.matrix(2, 3), weights), ShapeError);
    CHECK_THROWS_WITH(feed_forward(numbers.matrix(2, 3), weights),
                      ContainsSubstring("activated (2, 5) and weight (6, 3)"));
}
