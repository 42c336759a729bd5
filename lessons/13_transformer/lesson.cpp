// Lesson 13: the whole Transformer, at the size of the paper.
//
// Six encoder layers read a sentence, six decoder layers write another, and one table of
// words is used at both ends. The weights are random, so the output is meaningless; the
// procedure is exactly that of a trained model.

#include "../lesson.hpp"

#include "attn/reference/layers/decoder_cache.hpp"
#include "attn/reference/models/greedy_decode.hpp"
#include "attn/reference/ops/concat.hpp"
#include "attn/reference/ops/random.hpp"
#include "attn/reference/ops/reduce.hpp"

#include <algorithm>
#include <numeric>

using namespace attn;

namespace {

/// The sizes of the base model of Vaswani et al. 2017, except for the vocabulary, which
/// had 37000 words there.
struct Sizes {
    std::size_t layers = 6, d_model = 512, heads = 8, d_ff = 2048, vocabulary = 16;
};

LinearWeights random_map(RandomNumbers& numbers, std::size_t from, std::size_t to,
                         double scale)
{
    Matrix weight = numbers.matrix(from, to, scale);
    return {std::move(weight), numbers.vector(to, scale)};
}

/// @param comparing  the scale of queries and keys: large scores make softmax sharp
/// @param mixing     the scale of values and output: how large the block's output is
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
    LinearWeights hidden = random_map(numbers, sizes.d_model, sizes.d_ff, 0.0625);
    return {std::move(hidden), random_map(numbers, sizes.d_ff, sizes.d_model, 0.0078125)};
}

TransformerWeights random_weights(RandomNumbers& numbers, const Sizes& sizes)
{
    const std::size_t d = sizes.d_model;
    const LayerNormWeights norm{xt::ones<double>({d}), Vector(xt::zeros<double>({d}))};
    // Cross-attention outweighs the rest: otherwise such weights repeat one word.
    //! [weights]
    const auto self_attention = [&] { return random_heads(numbers, d, 0.0625, 0.03125); };
    const auto cross_attention = [&] { return random_heads(numbers, d, 0.25, 0.125); };
    //! [weights]
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

/// All at once: the target, shifted right, goes in, and row i of the logits gives token
/// i.
Matrix teach_forced(Lesson& lesson, const Integers& start, const Integers& source,
                    const Integers& said, const TranslatorWeights& weights,
                    const TransformerOptions& options)
{
    const std::size_t known = said.size() - 1;
    const std::string formula =
        "concat(start, said[0:" + std::to_string(known) + "], axis=0)";
    //! [teacher]
    const Integers earlier = xt::view(said, xt::range(std::size_t{0}, known));
    const Integers target =
        lesson.trace()("target_ids[n]", formula, concat(start, earlier));
    return predict_next(source, target, weights, options, lesson.trace());
    //! [teacher]
}

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

std::int64_t sum_of(const Integers& numbers)
{
    return std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0});
}

/// Multiplications of the decoder's matrix products: of all k tokens, and of the newest
/// token alone.
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
        //! [count]
        all(i) = static_cast<std::int64_t>(decoder_multiplications(length, sizes));
        one(i) = static_cast<std::int64_t>(decoder_step_multiplications(length, sizes));
        //! [count]
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

void teach(Lesson& lesson)
{
    const Trace& trace = lesson.trace();
    const Sizes sizes;

    lesson.heading("1. Sixteen words, of which 0 is the start token and 1 the end token, "
                   "and a source of five words");
    RandomNumbers numbers(14);
    const Integers start = trace("start[one]", "", Integers{0});
    const Integers source = lesson.input("source_ids[m]", Integers{9, 5, 8, 10, 9});
    //! [inputs]
    const Matrix table = trace("table[vocabulary, d_model]", "",
                               numbers.matrix(sizes.vocabulary, sizes.d_model, 0.0625));
    const TranslatorWeights weights{table, random_weights(numbers, sizes)};
    //! [inputs]

    lesson.heading("2. Writing token by token, without a cache");
    //! [greedy]
    GreedyOptions options{.transformer = {.attention = {.heads = sizes.heads}},
                          .start = start(0),
                          .end = 1,
                          .max_tokens = 12};
    options.caching = Caching::none;
    const Translation plain = greedy_decode(source, weights, options);
    //! [greedy]
    const Integers said = trace("said[n]", "", plain.ids);

    lesson.heading("3. All at once, as in training: every step of one pass");
    const Matrix logits =
        teach_forced(lesson, start, source, said, weights, options.transformer);
    const Integers next = trace("next_ids[n]",
                                "min(where(logits == max(logits, axis=-1, "
                                "keepdims=True), arange(logits.shape[1]), "
                                "inf), axis=-1)",
                                likeliest(logits));
    lesson.expect_equal("the likeliest word of each row is what was written", next, said);
    lesson.expect_equal("with the same logits", logits, plain.logits);

    lesson.heading("4. Writing with a cache of the keys and values of earlier tokens");
    //! [cached]
    options.caching = Caching::keys_and_values;
    const Translation kept = greedy_decode(source, weights, options);
    //! [cached]
    const Trace cached = trace.scope("cached");
    const Matrix by_cache = cached("logits[n, vocabulary]", "", kept.logits);
    const Vector difference =
        cached("difference[n]", "max(abs(logits - generator.logits), axis=1)",
               max_along(Matrix(xt::abs(by_cache - logits)), 1));
    lesson.expect("the logits differ by rounding at most", max_all(difference) < 1e-9);
    lesson.expect_equal("the same words are written", kept.ids, said);
    lesson.expect_equal("each with the same logits", kept.logits, plain.logits);

    lesson.heading("5. How many multiplications the cache saves");
    count(lesson, {sizes.layers, sizes.d_model, sizes.d_ff, source.size()}, said.size());
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("13_transformer", argc, argv, teach);
}
