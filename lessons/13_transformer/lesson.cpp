// Lesson 13: the whole Transformer.
//
// An encoder reads an English sentence, a decoder writes it in French, and one table of
// words is used at both ends. The model is small, and trained: what it writes is right.

#include "../lesson.hpp"
#include "../translator.hpp"

#include "attn/reference/layers/decoder_cache.hpp"
#include "attn/reference/ops/concat.hpp"
#include "attn/reference/ops/softmax.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <utility>

using namespace attn;

namespace {

Integers likeliest(const Matrix& logits);
void count(Lesson& lesson, const DecoderSizes& sizes, std::size_t tokens);
void teach_beam(Lesson& lesson, const Translator& model);

void teach(Lesson& lesson)
{
    const Trace& trace = lesson.trace();
    //! [inputs]
    Translator model = translator();
    GreedyOptions options = model.options();
    //! [inputs]

    lesson.heading("1. English and French in one table, and an English sentence");
    const Integers start = trace("start[one]", "", Integers{options.start});
    const Integers source =
        *lesson.input("source_ids[m]", model.ids("Lily had a red ball ."));
    lesson.say(model.words(source));
    TranslatorWeights& weights = model.weights;
    weights.table = trace("table[vocabulary, d_model]", "", weights.table);

    lesson.heading("2. Writing token by token, without a cache");
    //! [greedy]
    options.caching = Caching::none;
    const Translation plain = greedy_decode(source, weights, options);
    //! [greedy]
    const Integers said = trace("said[n]", "", plain.ids);
    lesson.say(model.words(said));

    lesson.heading("3. All at once, as in training: every step of one pass");
    const std::size_t known = said.size() - 1;
    const std::string shifted =
        "concat(start, said[0:" + std::to_string(known) + "], axis=0)";
    //! [teacher]
    const Integers earlier = xt::view(said, xt::range(std::size_t{0}, known));
    const Integers target = trace("target_ids[n]", shifted, concat(start, earlier));
    const Matrix logits =
        predict_next(source, target, weights, options.transformer, trace);
    //! [teacher]
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
    const Term by_cache = cached.given("logits[n, vocabulary]", kept.logits);
    const Term without = named(logits, "generator.logits", trace);
    const Term difference =
        cached("difference[n]", max_along(abs(by_cache - without), 1));
    lesson.expect("the logits differ by rounding at most", *max_all(difference) < 1e-9);
    lesson.expect_equal("the same words are written", kept.ids, said);
    lesson.expect_equal("each with the same logits", kept.logits, plain.logits);

    lesson.heading("5. How many multiplications the cache saves at the paper's size");
    count(lesson, {.layers = 6, .d_model = 512, .d_ff = 2048, .m = source.size()},
          said.size());

    lesson.heading("6. Two sentences side by side: beam search");
    teach_beam(lesson, model);
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
    for (const auto& [name, size] : {std::pair{"layers", sizes.layers},
                                     {"d", sizes.d_model},
                                     {"d_ff", sizes.d_ff},
                                     {"m", sizes.m}})
        std::ignore = cost(name, "", static_cast<std::int64_t>(size));
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
        cost("memory", "layers * 2 * m * d ** 2",
             static_cast<std::int64_t>(decoder_cache_multiplications(sizes)));
    const auto without =
        static_cast<double>(cost("without_cache", "sum(all)", sum_of(all)));
    const auto with = static_cast<double>(
        cost("with_cache", "memory + sum(one)", memory + sum_of(one)));
    const double ratio = cost("ratio", "without_cache / with_cache", without / with);
    lesson.table({"multiplications of the decoder: without a cache", "with", "ratio"},
                 {{without, with, ratio}});
}

/// A sentence as far as it is written, and the logarithm of its probability.
struct Sentence {
    Integers ids;
    double log_probability = 0;
};

/// The probability of a whole sentence: the product of those of its words.
double score(const Trace& trace, const Integers& source, const Integers& sentence,
             const Translator& model)
{
    const GreedyOptions options = model.options();
    const Integers ids = trace("ids[n]", "", sentence);
    const Integers earlier = xt::view(ids, xt::range(std::size_t{0}, ids.size() - 1));
    const Matrix logits = trace("logits[n, vocabulary]", "",
                                predict_next(source, concat({options.start}, earlier),
                                             model.weights, options.transformer));
    const Matrix probabilities = softmax(logits);
    Vector of_words(Vector::shape_type{ids.size()});
    for (std::size_t i = 0; i < ids.size(); ++i)
        of_words(i) = probabilities(i, static_cast<std::size_t>(ids(i)));
    const Term chances = trace("chances[n]",
                               "sum(where(ids[:, None] == arange(logits.shape[1]), "
                               "softmax(logits), 0), axis=1)",
                               Term(of_words));
    const Term log_probability = trace("log_probability", sum_all(log(chances)));
    return *trace("probability", exp(log_probability));
}

//! [beam]
/// Each sentence with each word after it; the likeliest of all these are kept.
std::vector<Sentence> extend(const std::vector<Sentence>& beam, std::size_t width,
                             const Integers& source, const Translator& model)
{
    const GreedyOptions options = model.options();
    std::vector<Sentence> candidates;
    for (const Sentence& sentence : beam) {
        const Integers& ids = sentence.ids;
        if (ids(ids.size() - 1) == options.end) {
            candidates.push_back(sentence);
            continue;
        }
        const Matrix logits =
            predict_next(source, ids, model.weights, options.transformer);
        const Vector chances = softmax(Vector(xt::row(logits, -1)));
        for (std::size_t word = 0; word < chances.size(); ++word)
            candidates.push_back({concat(ids, {static_cast<std::int64_t>(word)}),
                                  sentence.log_probability + std::log(chances(word))});
    }
    width = std::min(width, candidates.size());
    std::ranges::partial_sort(candidates, candidates.begin() + std::ptrdiff_t(width), {},
                              [](const Sentence& one) { return -one.log_probability; });
    candidates.resize(width);
    return candidates;
}
//! [beam]

/// The likeliest sentence that a search of some width finds.
Integers search(std::size_t width, const Integers& source, const Translator& model)
{
    std::vector<Sentence> beam{{{model.options().start}, 0}};
    for (std::size_t i = 0; i < model.options().max_tokens; ++i)
        beam = extend(beam, width, source, model);
    const Integers& best = beam.front().ids;
    return xt::view(best, xt::range(std::size_t{1}, best.size()));
}

/// A sentence where the likeliest first word does not begin the likeliest sentence.
void teach_beam(Lesson& lesson, const Translator& model)
{
    const Trace trace = lesson.trace().scope("bike");
    const Integers source =
        trace("source_ids[m]", "", model.ids("Mia had a white bike ."));
    const Integers greedy = search(1, source, model), best = search(2, source, model);
    const double of_greedy = score(trace.scope("greedy"), source, greedy, model),
                 of_best = score(trace.scope("beam"), source, best, model);
    lesson.say("greedy: " + model.words(greedy));
    lesson.say("beam:   " + model.words(best));
    lesson.table({"probability: greedy", "beam"}, {{of_greedy, of_best}});
    lesson.expect("two sentences side by side find a likelier one", of_best > of_greedy);
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("13_transformer", argc, argv, teach);
}
