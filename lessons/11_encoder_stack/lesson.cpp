// Lesson 11: six encoder layers, at the size of the paper.
//
// The steps are those of lesson 10; only the sizes are new: 512 features, 8 heads, 2048
// hidden units, two sentences of 20 and 13 tokens. A large tensor is summarised on the
// screen; the trace file has all of its numbers. At the end, the parameters of this
// encoder, of the base Transformer and of GPT-2 small are counted.

#include "../lesson.hpp"

#include "attn/reference/attention/mask.hpp"
#include "attn/reference/layers/encoder.hpp"
#include "attn/reference/ops/random.hpp"

#include <tuple>
#include <utility>

using namespace attn;

namespace {

/// The sizes of the base model of Vaswani et al. 2017.
struct Sizes {
    std::size_t layers = 6, d_model = 512, heads = 8, d_ff = 2048, sequences = 2, n = 20;
};

EncoderLayerWeights random_layer(RandomNumbers& numbers, const Sizes& sizes);
void change_padding(Lesson& lesson, const Tensor3& x, const Integers& lengths,
                    const EncoderWeights& weights, const EncoderOptions& masked,
                    const Tensor3& output);
void count_base(Lesson& lesson, const Trace& parameters);
void count_gpt2(Lesson& lesson, const Trace& parameters);

void teach(Lesson& lesson)
{
    const Trace& trace = lesson.trace();
    const Sizes sizes;

    lesson.heading(
        "1. Two sentences of 20 places; the second ends after 13. Positions are added");
    RandomNumbers numbers(11);
    const Term tokens =
        lesson.input("tokens[b, n, d_model]",
                     numbers.tensor3(sizes.sequences, sizes.n, sizes.d_model));
    const Term lengths = lesson.input("lengths[b]", Integers{20, 13});
    const std::size_t n = tokens.shape(1), d_model = tokens.shape(2);
    //! [inputs]
    const Matrix table = sinusoidal_positions(n, d_model, {}, trace);
    const Term positions = named(table, "positions", trace);
    const Term x = trace("x[b, n, d_model]", tokens + positions);
    const OptionalMask mask = join_masks(n, n, {.key_lengths = *lengths}, trace);
    //! [inputs]

    lesson.heading("2. Six layers");
    //! [stack]
    EncoderWeights weights;
    for (std::size_t i = 0; i < sizes.layers; ++i)
        weights.layers.push_back(random_layer(numbers, sizes));
    const EncoderOptions options{.attention = {.heads = sizes.heads, .mask = mask}};
    const Term output = encoder(x, weights, options, trace);
    //! [stack]

    lesson.heading("3. Under the mask, padding changes no real token");
    change_padding(lesson, *x, *lengths, weights, options, *output);

    lesson.heading("4. How many parameters are where");
    const Trace parameters = trace.scope("parameters");
    count_base(lesson, parameters);
    count_gpt2(lesson, parameters);
}

/// A matrix and a bias of untrained weights: uniform random numbers between -scale and
/// scale.
LinearWeights random_map(RandomNumbers& numbers, std::size_t from, std::size_t to,
                         double scale)
{
    Matrix weight = numbers.matrix(from, to, scale);
    return {std::move(weight), numbers.vector(to, scale)};
}

/// One layer of untrained weights. The scales are near sqrt(3 / d_model) and sqrt(3 /
/// d_ff), which keeps the magnitude of the activations from layer to layer.
EncoderLayerWeights random_layer(RandomNumbers& numbers, const Sizes& sizes)
{
    constexpr double narrow = 0x1p-4, wide = 0x1p-5;
    const std::size_t d = sizes.d_model;
    EncoderLayerWeights weights;
    //! [weights]
    weights.self_attention.query = random_map(numbers, d, d, narrow);
    weights.self_attention.key = random_map(numbers, d, d, narrow);
    weights.self_attention.value = random_map(numbers, d, d, narrow);
    weights.self_attention.output = random_map(numbers, d, d, narrow);
    weights.feed_forward.hidden = random_map(numbers, d, sizes.d_ff, narrow);
    weights.feed_forward.output = random_map(numbers, sizes.d_ff, d, wide);
    weights.norm1 = {xt::ones<double>({d}), Vector(xt::zeros<double>({d}))};
    //! [weights]
    weights.norm2 = weights.norm1;
    return weights;
}

/// The tokens of sentence b up to its end.
Term<Matrix> real_tokens(const Tensor3& x, const Integers& lengths, std::size_t b)
{
    const Term sentences(x);
    return slice(row(sentences, b), 0, static_cast<std::size_t>(lengths(b)));
}

/// Other padding, with the mask and without it: which outputs of real tokens change?
void change_padding(Lesson& lesson, const Tensor3& x, const Integers& lengths,
                    const EncoderWeights& weights, const EncoderOptions& masked,
                    const Tensor3& output)
{
    Tensor3 other = x;
    //! [padding]
    for (std::size_t b = 0; b < lengths.size(); ++b)
        xt::view(other, b, xt::range(lengths[b], x.shape(1)), xt::all()) = 100.0;
    const Tensor3 same = encoder(other, weights, masked);
    //! [padding]
    EncoderOptions unmasked = masked;
    unmasked.attention.mask = {};
    const Tensor3 before = encoder(x, weights, unmasked);
    const Tensor3 after = encoder(other, weights, unmasked);

    Vector change(Vector::shape_type{lengths.size()});
    for (std::size_t b = 0; b < lengths.size(); ++b) {
        lesson.expect_equal(
            "sentence " + std::to_string(b) + " is the same with other padding",
            real_tokens(same, lengths, b), real_tokens(output, lengths, b));
        change(b) = *max_all(
            abs(real_tokens(after, lengths, b) - real_tokens(before, lengths, b)));
    }
    change = *lesson.trace().given("unmasked_change[b]", change);
    lesson.expect("without the mask, other padding changes sentence 1", change(1) > 0.01);
}

/// What decides how many numbers a model learns.
struct ModelSizes {
    std::int64_t layers, d, d_ff, vocabulary;
};

/// The parameters of the parts that every model has.
struct Parts {
    std::int64_t attention, feed_forward, norm, table;
};

Parts count_parts(const Trace& trace, const ModelSizes& sizes)
{
    const auto [layers, d, d_ff, vocabulary] = sizes;
    for (const auto& [name, size] : {std::pair{"layers", layers},
                                     {"d", d},
                                     {"d_ff", d_ff},
                                     {"vocabulary", vocabulary}})
        std::ignore = trace(name, "", size);
    //! [count]
    return {trace("attention", "4 * (d ** 2 + d)", 4 * (d * d + d)),
            trace("feed_forward", "2 * d * d_ff + d_ff + d", 2 * d * d_ff + d_ff + d),
            trace("norm", "2 * d", 2 * d),
            trace("table", "vocabulary * d", vocabulary * d)};
    //! [count]
}

/// The Transformer of Vaswani et al. 2017, base model. One table of words is used three
/// times.
void count_base(Lesson& lesson, const Trace& parameters)
{
    const ModelSizes sizes{6, 512, 2048, 37000};
    const Trace trace = parameters.scope("base");
    const auto [attention, feed_forward, norm, table] = count_parts(trace, sizes);
    //! [base]
    const std::int64_t encoder_layer =
        trace("encoder_layer", "attention + feed_forward + 2 * norm",
              attention + feed_forward + 2 * norm);
    const std::int64_t decoder_layer =
        trace("decoder_layer", "2 * attention + feed_forward + 3 * norm",
              2 * attention + feed_forward + 3 * norm);
    //! [base]
    const std::int64_t encoder =
        trace("encoder", "layers * encoder_layer", sizes.layers * encoder_layer);
    const std::int64_t decoder =
        trace("decoder", "layers * decoder_layer", sizes.layers * decoder_layer);
    const std::int64_t total =
        trace("total", "encoder + decoder + table", encoder + decoder + table);
    lesson.say("The base Transformer has " + std::to_string(total) + " parameters.");
}

/// GPT-2 small: twelve pre-norm layers, a norm after the last, learned positions, the
/// table of words used twice.
void count_gpt2(Lesson& lesson, const Trace& parameters)
{
    const ModelSizes sizes{12, 768, 3072, 50257};
    const Trace trace = parameters.scope("gpt2");
    const auto [attention, feed_forward, norm, table] = count_parts(trace, sizes);
    const std::int64_t context = trace("context", "", std::int64_t{1024});
    const std::int64_t positions = trace("positions", "context * d", context * sizes.d);
    //! [gpt2]
    const std::int64_t layer = trace("layer", "attention + feed_forward + 2 * norm",
                                     attention + feed_forward + 2 * norm);
    const std::int64_t total = trace("total", "layers * layer + norm + table + positions",
                                     sizes.layers * layer + norm + table + positions);
    //! [gpt2]
    lesson.say("GPT-2 small has " + std::to_string(total) + " parameters.");
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("11_encoder_stack", argc, argv, teach);
}
