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
#include <numeric>

using namespace attn;

namespace {

/// The sizes of the paper's base model, but for the vocabulary: the paper's had 37000 words.
struct Sizes {
    std::size_t layers = 6, d_model = 512, heads = 8, d_ff = 2048, vocabulary = 16;
};

//! [weights]
LinearWeights random_map(RandomNumbers& numbers, std::size_t from, std::size_t to,
                         double scale)
{
    Matrix weight = numbers.matrix(from, to, scale);
    return {std::move(weight), numbers.vector(to, scale)};
}

/// @param comparing  the scale of queries and keys: how sharply heads choose
/// @param mixing     the scale of values and output: how much of what they find is added
MultiHeadWeights random_heads(RandomNumbers& numbers, std::size_t d, double comparing,
                              double mixing)
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
        weights.encoder.layers.push_back(
            {std::move(heads), random_feed_forward(numbers, sizes), norm, norm});
    }
    for (std::size_t i = 0; i < sizes.layers; ++i) {
        MultiHeadWeights self = self_attention(), cross = cross_attention();
        weights.decoder.layers.push_back({std::move(self), std::move(cross),
                                          random_feed_forward(numbers, sizes), norm, norm,
                                          norm});
    }
    return weights;
}
//! [weights]

//! [teacher]
/// All at once: the target shifted right goes in, and each row gives the next token.
Matrix teach_forced(Lesson& lesson, const Integers& start, const Integers& source,
                    const Integers& said, const TranslatorWeights& weights,
                    const TransformerOptions& options)
{
    const std::size_t known = said.size() - 1;
    const Integers earlier = xt::view(said, xt::range(std::size_t{0}, known));
    const Integers target = lesson.trace()(
        "target_ids[n]", "concat(start, said[0:" + std::to_string(known) + "], axis=0)",
        concat(start, earlier));
    return predict_next(source, target, {}, {}, weights, options, lesson.trace());
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
std::int64_t sum_of(const Integers& numbers)
{
    return std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0});
}

/// Multiplications of the decoder's matrix products, for each token by itself and for all of them.
void count(Lesson& lesson, const DecoderSizes& sizes, std::size_t tokens)
{
    const Trace cost = lesson.trace().scope("cost");
    const auto number = [&](std::string_view step, std::string_view formula,
                            std::int64_t value) { return cost(step, formula, value); };
    number("layers", "", static_cast<std::int64_t>(sizes.layers));
    number("d", "", static_cast<std::int64_t>(sizes.d_model));
    number("d_ff", "", static_cast<std::int64_t>(sizes.d_ff));
    number("m", "", static_cast<std::int64_t>(sizes.m));
    Integers k(Integers::shape_type{tokens});
    std::iota(k.begin(), k.end(), 1);
    k = cost("k[n]", "arange(" + std::to_string(tokens) + ") + 1", k);
    Integers all = k, one = k;
    for (std::size_t i = 0; i < tokens; ++i) {
        const auto length = static_cast<std::size_t>(k(i));
        all(i) = static_cast<std::int64_t>(decoder_multiplications(length, sizes));
        one(i) = static_cast<std::int64_t>(decoder_step_multiplications(length, sizes));
    }
    all = cost("all[n]",
               "layers * (6 * k * d ** 2 + 2 * m * d ** 2 + 2 * k ** 2 * d + 2 * k * m * "
               "d + 2 * k * d * d_ff)",
               all);
    one = cost("one[n]", "layers * (6 * d ** 2 + 2 * k * d + 2 * m * d + 2 * d * d_ff)",
               one);
    const std::int64_t memory =
        number("memory", "layers * 2 * m * d ** 2",
               static_cast<std::int64_t>(decoder_cache_multiplications(sizes)));
    const double without =
        static_cast<double>(number("without_cache", "sum(all)", sum_of(all)));
    const double with = static_cast<double>(
        number("with_cache", "memory + sum(one)", memory + sum_of(one)));
    const double ratio = cost("ratio", "without_cache / with_cache", without / with);
    lesson.table({"multiplications of the decoder: without a cache", "with", "ratio"},
                 {{without, with, ratio}});
}
//! [count]

void teach(Lesson& lesson)
{
    const Trace& trace = lesson.trace();
    const Sizes sizes;

    //! [inputs]
    lesson.heading("1. Sixteen words, the first for the start and the second for the "
                   "end, and a sentence of five");
    RandomNumbers numbers(14);
    const Integers start = trace("start[one]", "", Integers{0});
    const Integers source = lesson.input("source_ids[m]", Integers{9, 5, 8, 10, 9});
    const Matrix table = trace("table[vocabulary, d_model]", "",
                               numbers.matrix(sizes.vocabulary, sizes.d_model, 0x1p-4));
    const TranslatorWeights weights{table, random_weights(numbers, sizes)};
    //! [inputs]

    //! [greedy]
    lesson.heading(
        "2. Token by token: what has been said goes in, the likeliest word comes out");
    GreedyOptions options{.transformer = {.attention = {.heads = sizes.heads}},
                          .start = start(0),
                          .end = 1,
                          .max_tokens = 12};
    options.caching = Caching::none;
    const Translation plain = greedy_decode(source, {}, weights, options);
    const Integers said = trace("said[n]", "", plain.ids);
    //! [greedy]

    //! [forced]
    lesson.heading("3. All at once, as in training: every step of one pass");
    const Matrix logits =
        teach_forced(lesson, start, source, said, weights, options.transformer);
    const Integers next = trace("next_ids[n]",
                                "min(where(logits == max(logits, axis=-1, "
                                "keepdims=True), arange(logits.shape[1]), "
                                "inf), axis=-1)",
                                likeliest(logits));
    lesson.expect_equal("what was said is what each row finds likeliest", next, said);
    lesson.expect_equal("and by the same logits", logits, plain.logits);
    //! [forced]

    //! [cached]
    lesson.heading("4. With the keys and values of earlier tokens kept");
    options.caching = Caching::keys_and_values;
    const Translation kept = greedy_decode(source, {}, weights, options);
    const Trace cached = trace.scope("cached");
    const Matrix by_cache = cached("logits[n, vocabulary]", "", kept.logits);
    const Vector difference =
        cached("difference[n]", "max(abs(logits - generator.logits), axis=1)",
               max_along(Matrix(xt::abs(by_cache - logits)), 1));
    lesson.expect("the largest difference is one of rounding",
                  max_all(difference) < 1e-9);
    lesson.expect_equal("the same is said", kept.ids, said);
    lesson.expect_equal("each token by the same logits", kept.logits, plain.logits);
    //! [cached]

    lesson.heading("5. What that saves");
    count(lesson, {sizes.layers, sizes.d_model, sizes.d_ff, source.size()}, said.size());
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("13_transformer", argc, argv, teach);
}
