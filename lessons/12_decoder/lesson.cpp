// Lesson 12: one decoder layer.
//
// The decoder writes the target, a token at a time. Its input is not the source again: it is the target, shifted right
// behind a start token, so that each place knows what has been said before it. What the encoder read, it asks for:
// queries are the decoder's, keys and values are made of the encoder's output.

#include "../lesson.hpp"

#include "attn/layers/decoder.hpp"
#include "attn/ops/concat.hpp"
#include "attn/ops/random.hpp"
#include "attn/ops/reduce.hpp"

using namespace attn;

namespace {

constexpr std::size_t heads = 2, d_ff = 6;

//! [weights]
LinearWeights random_map(RandomNumbers& numbers, std::size_t from, std::size_t to)
{
    Matrix weight = numbers.matrix(from, to);
    return {std::move(weight), numbers.vector(to, 0.5)};
}

MultiHeadWeights random_heads(RandomNumbers& numbers, std::size_t d)
{
    MultiHeadWeights weights;
    for (LinearWeights* map : {&weights.query, &weights.key, &weights.value})
        *map = random_map(numbers, d, d);
    weights.output = random_map(numbers, d, d);
    return weights;
}

/// An encoder layer has one attention and two norms; a decoder layer has two and three.
DecoderLayerWeights random_layer(RandomNumbers& numbers, std::size_t d)
{
    const LayerNormWeights norm{xt::ones<double>({d}), Vector(xt::zeros<double>({d}))};
    DecoderLayerWeights weights;
    weights.norm1 = weights.norm2 = weights.norm3 = norm;
    weights.self_attention = random_heads(numbers, d);
    weights.cross_attention = random_heads(numbers, d);
    weights.feed_forward.hidden = random_map(numbers, d, d_ff);
    weights.feed_forward.output = random_map(numbers, d_ff, d);
    return weights;
}
//! [weights]

//! [look]
/// The first block: target tokens look at each other, none at a later one.
Matrix look_back(const Trace& trace, const Matrix& x, const Mask& mask,
                 const DecoderLayerWeights& weights)
{
    const Trace self_attn = trace.scope("self_attn", {{"x", "x"}});
    const Matrix found = multi_head_attention(x, mask, {}, weights.self_attention,
                                              {.heads = heads}, self_attn)
                             .output;
    const Matrix residual =
        trace("residual1[n, d_model]", "x + self_attn.output", Matrix(x + found));
    return layer_norm(residual, weights.norm1, {},
                      trace.scope("norm1", {{"x", "residual1"}}));
}
//! [look]

//! [ask]
/// The second block: each target token asks what the encoder read. Nothing of the source is hidden from it.
Matrix ask(const Trace& trace, const Matrix& x, const Matrix& memory,
           const DecoderLayerWeights& weights)
{
    const Trace cross_attn =
        trace.scope("cross_attn", {{"x", "norm1.output"}, {"memory", "memory"}});
    const Matrix found = multi_head_attention(x, memory, {}, {}, weights.cross_attention,
                                              {.heads = heads}, cross_attn)
                             .output;
    const Matrix residual = trace("residual2[n, d_model]",
                                  "norm1.output + cross_attn.output", Matrix(x + found));
    return layer_norm(residual, weights.norm2, {},
                      trace.scope("norm2", {{"x", "residual2"}}));
}
//! [ask]

//! [think]
/// The third block: each token by itself, as in an encoder layer; its output is the layer's.
Matrix think(const Trace& trace, const Matrix& x, const DecoderLayerWeights& weights)
{
    const Trace feed = trace.scope("feed_forward", {{"x", "norm2.output"}});
    const Matrix found = feed_forward(x, weights.feed_forward, {}, feed);
    const Matrix residual = trace(
        "residual3[n, d_model]", "norm2.output + feed_forward.output", Matrix(x + found));
    const Matrix output = layer_norm(residual, weights.norm3, {},
                                     trace.scope("norm3", {{"x", "residual3"}}));
    trace.alias("output", "norm3.output");
    return output;
}
//! [think]

Matrix first_rows(const Matrix& x, std::size_t count)
{
    return xt::view(x, xt::range(std::size_t{0}, count), xt::all());
}

Vector change_of(const Matrix& after, const Matrix& before)
{
    return max_along(Matrix(xt::abs(after - before)), 1);
}

//! [changed]
/// Another last token: what does it change, and where?
void change_last_token(Lesson& lesson, const Matrix& x, const Matrix& memory,
                       const Mask& mask, const DecoderLayerWeights& weights,
                       const Matrix& output)
{
    const DecoderOptions options{.attention = {.heads = heads}};
    const Trace changed = lesson.trace().scope("changed");
    const std::size_t last = x.shape(0) - 1;
    const Matrix another = changed(
        "another[one, d_model]",
        [&] {
            return "-x[" + std::to_string(last) + ":" + std::to_string(last + 1) + "]";
        },
        Matrix(-1.0 * xt::view(x, xt::range(last, last + 1), xt::all())));
    const Matrix other_x = changed(
        "x[n, d_model]",
        [&] { return "concat(x[0:" + std::to_string(last) + "], another, axis=0)"; },
        concat_rows(first_rows(x, last), another));
    const Matrix other =
        decoder_layer(other_x, memory, mask, {}, weights, options, changed);
    const Vector change =
        lesson.trace()("change[n]", "max(abs(changed.output - output), axis=1)",
                       change_of(other, output));
    const Vector leak =
        change_of(decoder_layer(other_x, memory, {}, {}, weights, options),
                  decoder_layer(x, memory, {}, {}, weights, options));

    std::vector<std::vector<double>> rows;
    for (std::size_t i = 0; i <= last; ++i)
        rows.push_back({static_cast<double>(i), change(i), leak(i)});
    lesson.table({"place", "change of its output", "without the mask"}, rows);
    lesson.expect("a later token changes no earlier output, not in its last bit",
                  max_all(Vector(xt::view(change, xt::range(std::size_t{0}, last)))) <=
                      0);
    lesson.expect("its own output it does change", change(last) > 0);
    lesson.expect("without the mask it changes all of them", -max_all(Vector(-leak)) > 0);
}
//! [changed]

void teach(Lesson& lesson)
{
    const Trace& trace = lesson.trace();

    //! [inputs]
    lesson.heading("1. What the encoder gave for three tokens; four tokens to be said, "
                   "and what is known when each is");
    const Matrix memory =
        lesson.input("memory[m, d_model]",
                     Matrix{{1, -1, 0.5, -0.5}, {-1.5, 0, 0.5, 1}, {0, 1.5, -1, -0.5}});
    const Vector start = lesson.input("start[d_model]", Vector{1, 1, 1, 1});
    const Matrix wanted =
        lesson.input("wanted[n, d_model]",
                     Matrix{{1, 0, 2, 0}, {0, 1, -1, 2}, {2, 1, 0, -1}, {-1, 0, 1, 0.5}});
    const std::size_t n = wanted.shape(0);
    const Matrix x = trace(
        "x[n, d_model]",
        [&] {
            return "concat(start[None, :], wanted[0:" + std::to_string(n - 1) +
                   "], axis=0)";
        },
        concat_rows(Matrix(xt::view(start, xt::newaxis(), xt::all())),
                    first_rows(wanted, n - 1)));
    RandomNumbers numbers(13);
    const DecoderLayerWeights weights = random_layer(numbers, x.shape(1));
    //! [inputs]

    //! [layer]
    lesson.heading("2. The first block: look back, add, normalise");
    const Mask mask = causal_mask(n, n, Causal::bottom_right, trace);
    trace.alias("mask", "causal");
    const Matrix first = look_back(trace, x, mask, weights);

    lesson.heading("3. The second block: ask what the encoder read, add, normalise");
    const Matrix second = ask(trace, first, memory, weights);

    lesson.heading("4. The third block: think, add, normalise");
    const Matrix output = think(trace, second, weights);
    const DecoderOptions causal{
        .attention = {.heads = heads, .causal = Causal::bottom_right}};
    lesson.expect_equal("decoder_layer gives the same",
                        decoder_layer(x, memory, {}, {}, weights, causal), output);
    //! [layer]

    lesson.heading("5. Another last token");
    change_last_token(lesson, x, memory, mask, weights, output);

    //! [swapped]
    lesson.heading("6. The other way round: the encoder's output as queries");
    const Trace swapped =
        trace.scope("swapped", {{"x", "memory"}, {"memory", "norm1.output"}});
    const Matrix found =
        multi_head_attention(memory, first, {}, {}, weights.cross_attention,
                             {.heads = heads}, swapped)
            .output;
    lesson.expect(
        "that gives a row for each token of the source, none for those of the target",
        found.shape(0) == memory.shape(0));
    //! [swapped]

    //! [prefixes]
    lesson.heading("7. When nobody knows what is wanted: what has been said so far");
    for (std::size_t said = 1; said <= n; ++said) {
        const Matrix so_far =
            decoder_layer(first_rows(x, said), memory, {}, {}, weights, causal);
        lesson.expect_equal("the first " + std::to_string(said) +
                                " by themselves give the same",
                            so_far, first_rows(output, said));
    }
    //! [prefixes]
}

} // namespace

int main(int argc, char** argv) { return Lesson::run("12_decoder", argc, argv, teach); }
