// Lesson 12: one decoder layer.
//
// A decoder writes the target one token at a time. Its input is the target, shifted right
// by one place after a start token. Self-attention is causal: no token attends to a later
// one. Cross-attention takes queries from the decoder, and keys and values from the
// encoder's output (the memory).

#include "../lesson.hpp"
#include "../random_weights.hpp"

#include "attn/reference/layers/decoder.hpp"

using namespace attn;

namespace {

constexpr std::size_t heads = 2, d_ff = 6;

DecoderLayerWeights random_layer(RandomNumbers& numbers, std::size_t d);
void change_last_token(Lesson& lesson, const Term<Matrix>& x, const Matrix& memory,
                       const Mask& mask, const DecoderLayerWeights& weights,
                       const Term<Matrix>& output);
void pad_source(Lesson& lesson, const Term<Matrix>& x, const Term<Matrix>& memory,
                const Mask& mask, const DecoderLayerWeights& weights);

void teach(Lesson& lesson)
{
    const Trace& trace = lesson.trace();

    lesson.heading("1. The memory (three tokens), the wanted target (four tokens), and "
                   "the input: the target shifted right");
    const Term memory =
        lesson.input("memory[m, d_model]",
                     Matrix{{1, -1, 0.5, -0.5}, {-1.5, 0, 0.5, 1}, {0, 1.5, -1, -0.5}});
    const Term start = lesson.input("start[d_model]", Vector{1, 1, 1, 1});
    const Term wanted =
        lesson.input("wanted[n, d_model]",
                     Matrix{{1, 0, 2, 0}, {0, 1, -1, 2}, {2, 1, 0, -1}, {-1, 0, 1, 0.5}});
    const std::size_t n = wanted.shape(0);
    //! [shift]
    const Term x =
        trace("x[n, d_model]", concat_rows(in_front(start), slice(wanted, 0, n - 1)));
    //! [shift]
    RandomNumbers numbers(13);
    const DecoderLayerWeights weights = random_layer(numbers, x.shape(1));

    lesson.heading("2. The first block: causal self-attention, residual, layer norm");
    const Mask mask = causal_mask(n, n, Causal::bottom_right, trace);
    trace.alias("mask", "causal");
    const Trace self_attn = trace.scope("self_attn"), norm1 = trace.scope("norm1");
    //! [self_attention]
    const Term attended = multi_head_attention(x, weights.self_attention,
                                               {.heads = heads, .mask = mask}, self_attn)
                              .output;
    const Term residual1 = trace("residual1[n, d_model]", x + attended);
    const Term first = layer_norm(residual1, weights.norm1, {}, norm1);
    //! [self_attention]

    lesson.heading("3. The second block: cross-attention, residual, layer norm");
    const Trace cross_attn = trace.scope("cross_attn"), norm2 = trace.scope("norm2");
    //! [cross_attention]
    const Term crossed =
        multi_head_attention(Sources(first, memory), weights.cross_attention,
                             {.heads = heads}, cross_attn)
            .output;
    const Term residual2 = trace("residual2[n, d_model]", first + crossed);
    const Term second = layer_norm(residual2, weights.norm2, {}, norm2);
    //! [cross_attention]

    lesson.heading("4. The third block: feed-forward network, residual, layer norm");
    const Trace feed = trace.scope("feed_forward"), norm3 = trace.scope("norm3");
    //! [feed]
    const Term fed = feed_forward(second, weights.feed_forward, {}, feed);
    const Term residual3 = trace("residual3[n, d_model]", second + fed);
    const Term output =
        trace.alias("output", layer_norm(residual3, weights.norm3, {}, norm3));
    //! [feed]
    //! [whole]
    const DecoderOptions causal{
        .attention = {.heads = heads, .causal = Causal::bottom_right}};
    const Matrix same = decoder_layer(*x, *memory, weights, causal);
    //! [whole]
    lesson.expect_equal("decoder_layer gives the same", same, output);

    lesson.heading("5. Another last token: which outputs change?");
    change_last_token(lesson, x, *memory, mask, weights, output);

    lesson.heading(
        "6. Swapped: queries from the memory, keys and values from the target");
    const Trace swapped = trace.scope("swapped");
    //! [swapped]
    const Term rows =
        multi_head_attention(Sources(memory, first), weights.cross_attention,
                             {.heads = heads}, swapped)
            .output;
    //! [swapped]
    lesson.expect("that gives one row per token of the source, not of the target",
                  rows.shape(0) == memory.shape(0));

    lesson.heading("7. Writing: the first tokens alone give the same rows");
    for (std::size_t known = 1; known <= n; ++known) {
        //! [prefixes]
        const Term prefix = slice(x, 0, known);
        const Matrix so_far = decoder_layer(*prefix, *memory, weights, causal);
        //! [prefixes]
        lesson.expect_equal("the first " + std::to_string(known) + " alone give the same",
                            so_far, slice(output, 0, known));
    }

    lesson.heading("8. The second mask: the last token of the source is padding");
    pad_source(lesson, x, memory, mask, weights);
}

/// A decoder layer has two attentions and three norms; an encoder layer has one and two.
DecoderLayerWeights random_layer(RandomNumbers& numbers, std::size_t d)
{
    const LayerNormWeights norm{xt::ones<double>({d}), Vector(xt::zeros<double>({d}))};
    DecoderLayerWeights weights;
    weights.norm1 = weights.norm2 = weights.norm3 = norm;
    weights.self_attention = random_heads(numbers, d, 0.5);
    weights.cross_attention = random_heads(numbers, d, 0.5);
    weights.feed_forward = random_feed_forward(numbers, d, d_ff, 0.5);
    return weights;
}

/// The largest change of any feature, per token.
Term<Vector> change_of(const Term<Matrix>& after, const Term<Matrix>& before)
{
    return max_along(abs(after - before), 1);
}

/// The last token with its sign changed: which outputs change, under the mask and without
/// it?
void change_last_token(Lesson& lesson, const Term<Matrix>& x, const Matrix& memory,
                       const Mask& mask, const DecoderLayerWeights& weights,
                       const Term<Matrix>& output)
{
    const DecoderOptions options{.attention = {.heads = heads}},
        masked{.attention = {.heads = heads, .mask = mask}};
    const Trace& trace = lesson.trace();
    const Trace changed = trace.scope("changed");
    const std::size_t last = x.shape(0) - 1;
    const Term another = changed("another[one, d_model]", -slice(x, last, last + 1));
    const Term other_x =
        changed("x[n, d_model]", concat_rows(slice(x, 0, last), another));
    //! [changed]
    const Matrix other = decoder_layer(*other_x, memory, weights, masked, changed);
    const Term change =
        trace("change[n]", change_of(named(other, "changed.output", trace), output));
    //! [changed]
    const Matrix after = decoder_layer(*other_x, memory, weights, options),
                 before = decoder_layer(*x, memory, weights, options);
    const Term unmasked =
        trace.given("unmasked_change[n]", *change_of(Term(after), Term(before)));
    lesson.expect("a later token changes no earlier output, not even in its last bit",
                  *max_all(slice(change, 0, last)) <= 0);
    lesson.expect("it does change its own output", (*change)(last) > 0);
    lesson.expect("without the mask it changes all outputs", *min_all(unmasked) > 0);
}

/// The second mask: the last token of the source is padding, and no query attends to it.
void pad_source(Lesson& lesson, const Term<Matrix>& x, const Term<Matrix>& memory,
                const Mask& mask, const DecoderLayerWeights& weights)
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

} // namespace

int main(int argc, char** argv) { return Lesson::run("12_decoder", argc, argv, teach); }
