// Lesson 12: one decoder layer.
//
// A decoder writes the target one token at a time. Its input is the target, shifted right
// by one place after a start token. Self-attention is causal: no token attends to a later
// one. Cross-attention takes queries from the decoder, and keys and values from the
// encoder's output (the memory).

#include "../lesson.hpp"

#include "attn/reference/layers/decoder.hpp"
#include "attn/reference/ops/concat.hpp"
#include "attn/reference/ops/random.hpp"
#include "attn/reference/ops/reduce.hpp"

using namespace attn;

namespace {

constexpr std::size_t heads = 2, d_ff = 6;

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

/// A decoder layer has two attentions and three norms; an encoder layer has one and two.
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

/// The first block: self-attention under the causal mask, residual, layer norm.
Matrix self_attention_block(const Trace& trace, const Matrix& x, const Mask& mask,
                            const DecoderLayerWeights& weights)
{
    const Trace self_attn = trace.scope("self_attn", {{"x", "x"}});
    //! [self_attention]
    const Matrix attended =
        multi_head_attention(x, weights.self_attention, {.heads = heads, .mask = mask},
                             self_attn)
            .output;
    const Matrix residual =
        trace("residual1[n, d_model]", "x + self_attn.output", Matrix(x + attended));
    //! [self_attention]
    return layer_norm(residual, weights.norm1, {},
                      trace.scope("norm1", {{"x", "residual1"}}));
}

/// The second block: cross-attention, residual, layer norm. Queries come from x, keys and
/// values from the memory.
Matrix cross_attention_block(const Trace& trace, const Matrix& x, const Matrix& memory,
                             const DecoderLayerWeights& weights)
{
    const Trace cross_attn =
        trace.scope("cross_attn", {{"x", "norm1.output"}, {"memory", "memory"}});
    //! [cross_attention]
    const Matrix attended =
        multi_head_attention(Sources(x, memory), weights.cross_attention,
                             {.heads = heads}, cross_attn)
            .output;
    const Matrix residual =
        trace("residual2[n, d_model]", "norm1.output + cross_attn.output",
              Matrix(x + attended));
    //! [cross_attention]
    return layer_norm(residual, weights.norm2, {},
                      trace.scope("norm2", {{"x", "residual2"}}));
}

/// The third block: feed-forward network, residual, layer norm, as in an encoder layer.
/// Its output is the layer's.
Matrix feed_forward_block(const Trace& trace, const Matrix& x,
                          const DecoderLayerWeights& weights)
{
    const Trace feed = trace.scope("feed_forward", {{"x", "norm2.output"}});
    //! [feed]
    const Matrix fed = feed_forward(x, weights.feed_forward, {}, feed);
    const Matrix residual = trace("residual3[n, d_model]",
                                  "norm2.output + feed_forward.output", Matrix(x + fed));
    //! [feed]
    const Matrix output = layer_norm(residual, weights.norm3, {},
                                     trace.scope("norm3", {{"x", "residual3"}}));
    trace.alias("output", "norm3.output");
    return output;
}

Matrix first_rows(const Matrix& x, std::size_t count)
{
    return xt::view(x, xt::range(std::size_t{0}, count), xt::all());
}

/// The target shifted right: the start token, then all wanted tokens but the last.
Matrix shifted_right(const Trace& trace, const Vector& start, const Matrix& wanted)
{
    const std::size_t known = wanted.shape(0) - 1;
    const std::string formula =
        "concat(start[None, :], wanted[0:" + std::to_string(known) + "], axis=0)";
    //! [shift]
    const Matrix first_row = xt::view(start, xt::newaxis(), xt::all());
    return trace("x[n, d_model]", formula,
                 concat_rows(first_row, first_rows(wanted, known)));
    //! [shift]
}

/// The largest change of any feature, per token.
Vector change_of(const Matrix& after, const Matrix& before)
{
    return max_along(Matrix(xt::abs(after - before)), 1);
}

/// The last token with its sign changed: which outputs change, under the mask and without
/// it?
void change_last_token(Lesson& lesson, const Matrix& x, const Matrix& memory,
                       const Mask& mask, const DecoderLayerWeights& weights,
                       const Matrix& output)
{
    const DecoderOptions options{.attention = {.heads = heads}},
        masked{.attention = {.heads = heads, .mask = mask}};
    const Trace changed = lesson.trace().scope("changed");
    const std::size_t last = x.shape(0) - 1;
    const std::string begin = std::to_string(last), end = std::to_string(last + 1);
    const Matrix another =
        changed("another[one, d_model]", "-x[" + begin + ":" + end + "]",
                Matrix(-1.0 * xt::view(x, xt::range(last, last + 1), xt::all())));
    const Matrix other_x =
        changed("x[n, d_model]", "concat(x[0:" + begin + "], another, axis=0)",
                concat_rows(first_rows(x, last), another));
    //! [changed]
    const Matrix other = decoder_layer(other_x, memory, weights, masked, changed);
    const Vector change =
        lesson.trace()("change[n]", "max(abs(changed.output - output), axis=1)",
                       change_of(other, output));
    //! [changed]
    const Vector unmasked =
        lesson.trace()("unmasked_change[n]", "",
                       change_of(decoder_layer(other_x, memory, weights, options),
                                 decoder_layer(x, memory, weights, options)));
    lesson.expect("a later token changes no earlier output, not even in its last bit",
                  max_all(Vector(xt::view(change, xt::range(std::size_t{0}, last)))) <=
                      0);
    lesson.expect("it does change its own output", change(last) > 0);
    lesson.expect("without the mask it changes all outputs",
                  -max_all(Vector(-unmasked)) > 0);
}

/// The second mask: the last token of the source is padding, and no query attends to it.
void pad_source(Lesson& lesson, const Matrix& x, const Matrix& memory, const Mask& mask,
                const DecoderLayerWeights& weights)
{
    const std::size_t n = x.shape(0), m = memory.shape(0);
    const Trace padded =
        lesson.trace().scope("padded", {{"x", "x"}, {"memory", "memory"}});
    const std::string formula = "repeat((arange(" + std::to_string(m) + ") < " +
                                std::to_string(m - 1) + ")[None, :], " +
                                std::to_string(n) + ", axis=0)";
    //! [padded]
    Mask memory_mask = xt::ones<bool>({n, m});
    xt::view(memory_mask, xt::all(), m - 1) = false;
    memory_mask = padded("memory_mask[n, m]", formula, memory_mask);
    const DecoderOptions options{.attention = {.heads = heads, .mask = mask},
                                 .memory_mask = memory_mask};
    decoder_layer(x, memory, weights, options, padded);
    //! [padded]
}

void teach(Lesson& lesson)
{
    const Trace& trace = lesson.trace();

    lesson.heading("1. The memory (three tokens), the wanted target (four tokens), and "
                   "the input: the target shifted right");
    const Matrix memory =
        lesson.input("memory[m, d_model]",
                     Matrix{{1, -1, 0.5, -0.5}, {-1.5, 0, 0.5, 1}, {0, 1.5, -1, -0.5}});
    const Vector start = lesson.input("start[d_model]", Vector{1, 1, 1, 1});
    const Matrix wanted =
        lesson.input("wanted[n, d_model]",
                     Matrix{{1, 0, 2, 0}, {0, 1, -1, 2}, {2, 1, 0, -1}, {-1, 0, 1, 0.5}});
    const std::size_t n = wanted.shape(0);
    const Matrix x = shifted_right(trace, start, wanted);
    RandomNumbers numbers(13);
    const DecoderLayerWeights weights = random_layer(numbers, x.shape(1));

    lesson.heading("2. The first block: causal self-attention, residual, layer norm");
    const Mask mask = causal_mask(n, n, Causal::bottom_right, trace);
    trace.alias("mask", "causal");
    const Matrix first = self_attention_block(trace, x, mask, weights);

    lesson.heading("3. The second block: cross-attention, residual, layer norm");
    const Matrix second = cross_attention_block(trace, first, memory, weights);

    lesson.heading("4. The third block: feed-forward network, residual, layer norm");
    const Matrix output = feed_forward_block(trace, second, weights);
    //! [whole]
    const DecoderOptions causal{
        .attention = {.heads = heads, .causal = Causal::bottom_right}};
    const Matrix same = decoder_layer(x, memory, weights, causal);
    //! [whole]
    lesson.expect_equal("decoder_layer gives the same", same, output);

    lesson.heading("5. Another last token: which outputs change?");
    change_last_token(lesson, x, memory, mask, weights, output);

    lesson.heading(
        "6. Swapped: queries from the memory, keys and values from the target");
    const Trace swapped =
        trace.scope("swapped", {{"x", "memory"}, {"memory", "norm1.output"}});
    //! [swapped]
    const Matrix rows =
        multi_head_attention(Sources(memory, first), weights.cross_attention,
                             {.heads = heads}, swapped)
            .output;
    //! [swapped]
    lesson.expect("that gives one row per token of the source, not of the target",
                  rows.shape(0) == memory.shape(0));

    lesson.heading("7. Writing: the first tokens alone give the same rows");
    for (std::size_t known = 1; known <= n; ++known) {
        //! [prefixes]
        const Matrix so_far =
            decoder_layer(first_rows(x, known), memory, weights, causal);
        //! [prefixes]
        lesson.expect_equal("the first " + std::to_string(known) + " alone give the same",
                            so_far, first_rows(output, known));
    }

    lesson.heading("8. The second mask: the last token of the source is padding");
    pad_source(lesson, x, memory, mask, weights);
}

} // namespace

int main(int argc, char** argv) { return Lesson::run("12_decoder", argc, argv, teach); }
