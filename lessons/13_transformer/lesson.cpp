// Lesson 13: the whole Transformer, at the paper's size.
//
// Six encoder layers read a sentence, six decoder layers write another, one table of words stands at both ends. Nobody has
// trained it, so what it writes means nothing; how it writes is what a trained one does.

#include "../lesson.hpp"

#include "attn/layers/decoder_cache.hpp"
#include "attn/models/greedy_decode.hpp"
#include "attn/ops/concat.hpp"
#include "attn/ops/random.hpp"
#include "attn/ops/reduce.hpp"

#include <algorithm>

using namespace attn;

namespace {

/// The sizes of the paper's base model, but for the vocabulary: the paper's had 37000 words.
struct Sizes {
    std::size_t layers = 6, d_model = 512, heads = 8, d_ff = 2048, vocabulary = 16;
};

//! [weights]
LinearWeights random_map(RandomNumbers& numbers, std::size_t from, std::size_t to, double scale)
{
    Matrix weight = numbers.matrix(from, to, scale);
    return {std::move(weight), numbers.vector(to, scale)};
}

/// @param comparing  the scale of queries and keys: how sharply heads choose
/// @param mixing     the scale of values and output: how much of what they find is added
MultiHeadWeights random_heads(RandomNumbers& numbers, std::size_t d, double comparing, double mixing)
{
    MultiHeadWeights weights;
    weights.query = random_map(numbers, d, d, comparing);
    weights.key = random_map(numbers, d, d, comparing);
    weights.value = random_map(numbers, d, d, mixing);
    weights.output = random_map(numbers, d, d, mixing);
    return weights;
}

FeedForwardWeights random_feed_forward(RandomNumbers& numbers, const Sizes& sizes)
{
    LinearWeights hidden = random_map(numbers, sizes.d_model, sizes.d_ff, 0x1p-4);
    return {std::move(hidden), random_map(numbers, sizes.d_ff, sizes.d_model, 0x1p-7)};
}

TransformerWeights random_weights(RandomNumbers& numbers, const Sizes& sizes)
{
    const std::size_t d = sizes.d_model;
    const LayerNormWeights norm{xt::ones<double>({d}), Vector(xt::zeros<double>({d}))};
    const auto self_attention = [&] { return random_heads(numbers, d, 0x1p-4, 0x1p-5); };
    // What the source answers outweighs the rest: otherwise weights like these say one word for ever.
    const auto cross_attention = [&] { return random_heads(numbers, d, 0x1p-2, 0x1p-3); };
    TransformerWeights weights;
    for (std::size_t i = 0; i < sizes.layers; ++i) {
        MultiHeadWeights heads = self_attention();
        weights.encoder.layers.push_back({std::move(heads), random_feed_forward(numbers, sizes), norm, norm});
    }
    for (std::size_t i = 0; i < sizes.layers; ++i) {
        MultiHeadWeights self = self_attention(), cross = cross_attention();
        weights.decoder.layers.push_back(
            {std::move(self), std::move(cross), random_feed_forward(numbers, sizes), norm, norm, norm});
    }
    return weights;
}
//! [weights]

//! [teacher]
/// All at once: the target shifted right goes in, and each row says what comes next.
Matrix teach_forced(Lesson& lesson, const Integers& source, const Integers& said, const TranslatorWeights& weights,
                    const TransformerOptions& options)
{
    const Trace& trace = lesson.trace();
    const std::size_t n = said.size();
    const Integers known = xt::view(said, xt::range(std::size_t{0}, n - 1));
    const Integers target = trace(
        "target_ids[n]", [&] { return "concat(start, said[0:" + std::to_string(n - 1) + "], axis=0)"; },
        concat(Integers{0}, known));
    return predict_next(source, target, {}, {}, weights, options, trace);
}
//! [teacher]

/// The likeliest word of each row.
Integers likeliest(const Matrix& logits)
{
    Integers ids(Integers::shape_type{logits.shape(0)});
    for (std::size_t i = 0; i < ids.size(); ++i) {
        const double* row = logits.data() + i * logits.shape(1);
        ids(i) = std::max_element(row, row + logits.shape(1)) - row;
    }
    return ids;
}

//! [count]
/// Multiplications of the decoder's matrix products, for each token by itself and for all of them.
void count(Lesson& lesson, const DecoderSizes& sizes, std::size_t tokens)
{
    const Trace cost = lesson.trace().scope("cost");
    const auto given = [&](std::string_view step, std::size_t number) { cost(step, "", static_cast<double>(number)); };
    given("layers", sizes.layers);
    given("d", sizes.d_model);
    given("d_ff", sizes.d_ff);
    given("m", sizes.m);
    Vector all(Vector::shape_type{tokens}), step(Vector::shape_type{tokens}), k(Vector::shape_type{tokens});
    for (std::size_t i = 0; i < tokens; ++i) {
        k(i) = static_cast<double>(i + 1);
        all(i) = static_cast<double>(decoder_multiplications(i + 1, sizes));
        step(i) = static_cast<double>(decoder_step_multiplications(i + 1, sizes));
    }
    cost(
        "k[n]", [&] { return "arange(" + std::to_string(tokens) + ") + 1"; }, k);
    cost("all[n]", "layers * (6 * k * d ** 2 + 2 * m * d ** 2 + 2 * k ** 2 * d + 2 * k * m * d + 2 * k * d * d_ff)",
         all);
    cost("one[n]", "layers * (6 * d ** 2 + 2 * k * d + 2 * m * d + 2 * d * d_ff)", step);
    const double memory =
        cost("memory", "layers * 2 * m * d ** 2", static_cast<double>(decoder_cache_multiplications(sizes)));
    const double without = cost("without_cache", "sum(all)", sum_all(all));
    const double with = cost("with_cache", "memory + sum(one)", memory + sum_all(step));
    cost("ratio", "without_cache / with_cache", without / with);
    lesson.table({"multiplications of the decoder: without a cache", "with"}, {{without, with}});
}
//! [count]

void teach(Lesson& lesson)
{
    const Trace& trace = lesson.trace();
    const Sizes sizes;

    //! [inputs]
    lesson.heading("1. Sixteen words, the first for the start and the second for the end, and a sentence of five");
    RandomNumbers numbers(14);
    const Integers start = trace("start[one]", "", Integers{0});
    const Integers source = lesson.input("source_ids[m]", Integers{9, 5, 8, 10, 9});
    const Matrix table =
        trace("table[vocabulary, d_model]", "", numbers.matrix(sizes.vocabulary, sizes.d_model, 0x1p-4));
    const TranslatorWeights weights{table, random_weights(numbers, sizes)};
    //! [inputs]

    //! [greedy]
    lesson.heading("2. Token by token: what has been said goes in, the likeliest word comes out");
    GreedyOptions options{.transformer = {.attention = {.heads = sizes.heads}}, .start = 0, .end = 1, .max_tokens = 12};
    options.caching = Caching::none;
    const Translation plain = greedy_decode(source, {}, weights, options);
    const Integers said = trace("said[n]", "", plain.ids);
    //! [greedy]

    //! [forced]
    lesson.heading("3. All at once, as in training: every step of one pass");
    const Matrix logits = teach_forced(lesson, source, said, weights, options.transformer);
    const Integers next = trace("next_ids[n]",
                              "min(where(logits == max(logits, axis=-1, keepdims=True), arange(logits.shape[1]), inf), "
                              "axis=-1)",
                              likeliest(logits));
    lesson.expect_equal("what was said is what each row finds likeliest", next, said);
    lesson.expect_equal("and by the same logits", logits, plain.logits);
    //! [forced]

    //! [cached]
    lesson.heading("4. With the keys and values of earlier tokens kept");
    options.caching = Caching::keys_and_values;
    const Translation kept = greedy_decode(source, {}, weights, options);
    const Trace cached = trace.scope("cached");
    cached("logits[n, vocabulary]", "", kept.logits);
    cached("difference[n]", "max(abs(logits - generator.logits), axis=1)",
           max_along(Matrix(xt::abs(kept.logits - logits)), 1));
    lesson.expect_equal("the same is said", kept.ids, said);
    lesson.expect_equal("each token by the same logits", kept.logits, plain.logits);
    //! [cached]

    lesson.heading("5. What that saves");
    count(lesson, {sizes.layers, sizes.d_model, sizes.d_ff, source.size()}, said.size());
}

} // namespace

int main(int argc, char** argv) { return Lesson::run("13_transformer", argc, argv, teach); }
