// Lesson 11: six layers, at the paper's size.
//
// Nothing new but the size: 512 features, 8 heads, 2048 hidden units, two sentences of 20 and 13 tokens. What a small
// example can't show is how a trace reads when a tensor has a million numbers: a summary on the screen, all of it in the
// file.

#include "../lesson.hpp"

#include "attn/attention/mask.hpp"
#include "attn/layers/encoder.hpp"
#include "attn/ops/random.hpp"

using namespace attn;

namespace {

/// The sizes of the paper's base model.
struct Sizes {
    std::size_t layers = 6, d_model = 512, heads = 8, d_ff = 2048, sequences = 2, n = 20;
};

//! [weights]
/// Weights as nobody has trained them: small, even, and the same on every machine.
LinearWeights random_map(RandomNumbers& numbers, std::size_t from, std::size_t to,
                         double scale)
{
    Matrix weight = numbers.matrix(from, to, scale);
    return {std::move(weight), numbers.vector(to, scale)};
}

EncoderLayerWeights random_layer(RandomNumbers& numbers, const Sizes& sizes)
{
    constexpr double
        narrow = 0x1p-4,
        wide = 0x1p-5; // near sqrt(3 / d_model) and sqrt(3 / d_ff): sizes are kept
    const std::size_t d = sizes.d_model;
    EncoderLayerWeights weights;
    weights.self_attention.query = random_map(numbers, d, d, narrow);
    weights.self_attention.key = random_map(numbers, d, d, narrow);
    weights.self_attention.value = random_map(numbers, d, d, narrow);
    weights.self_attention.output = random_map(numbers, d, d, narrow);
    weights.feed_forward.hidden = random_map(numbers, d, sizes.d_ff, narrow);
    weights.feed_forward.output = random_map(numbers, sizes.d_ff, d, wide);
    weights.norm1 = {xt::ones<double>({d}), Vector(xt::zeros<double>({d}))};
    weights.norm2 = weights.norm1;
    return weights;
}
//! [weights]

void teach(Lesson& lesson)
{
    const Trace& trace = lesson.trace();
    const Sizes sizes;

    //! [inputs]
    lesson.heading(
        "1. Two sentences of 20 places; the second ends after 13. Positions are added");
    RandomNumbers numbers(11);
    const Tensor3 tokens =
        lesson.input("tokens[b, n, d_model]",
                     numbers.tensor3(sizes.sequences, sizes.n, sizes.d_model));
    const Integers lengths = lesson.input("lengths[b]", Integers{20, 13});
    const std::size_t n = tokens.shape(1), d_model = tokens.shape(2);
    const Matrix positions = sinusoidal_positions(n, d_model, {}, trace);
    const Tensor3 x =
        trace("x[b, n, d_model]", "tokens + positions", Tensor3(tokens + positions));
    const AnyMask mask = *join_masks(n, n, {.key_lengths = lengths}, trace);
    //! [inputs]

    //! [stack]
    lesson.heading("2. Six layers");
    EncoderWeights weights;
    for (std::size_t i = 0; i < sizes.layers; ++i)
        weights.layers.push_back(random_layer(numbers, sizes));
    const EncoderOptions options{.attention = {.heads = sizes.heads}};
    const Tensor3 output = encoder(x, mask, weights, options, trace);
    //! [stack]

    //! [padding]
    lesson.heading("3. What stands behind the end of a sentence changes nothing in it");
    Tensor3 other = x;
    for (std::size_t b = 0; b < lengths.size(); ++b)
        xt::view(other, b, xt::range(lengths[b], n), xt::all()) = 100.0;
    const Tensor3 same = encoder(other, mask, weights, options);
    for (std::size_t b = 0; b < lengths.size(); ++b) {
        const Matrix real =
            xt::view(output, b, xt::range(std::size_t{0}, lengths[b]), xt::all());
        const Matrix again =
            xt::view(same, b, xt::range(std::size_t{0}, lengths[b]), xt::all());
        lesson.expect_equal("sentence " + std::to_string(b) +
                                " is the same with other padding",
                            again, real);
    }
    //! [padding]
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("11_encoder_stack", argc, argv, teach);
}
