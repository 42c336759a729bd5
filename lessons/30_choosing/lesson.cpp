// Lesson 30: choosing words, and guessing ahead.
//
// A model gives every word a probability. Which words are cut before one is drawn, and
// how a small model guesses several words ahead of a large one without changing what the
// large one would say.

#include "../lesson.hpp"
#include "../numbers.hpp"
#include "../recorded.hpp"
#include "../small_model.hpp"

#include "attn/core/error.hpp"
#include "attn/reference/models/sampling.hpp"
#include "attn/reference/models/schedule.hpp"
#include "attn/reference/ops/softmax.hpp"

#include <algorithm>
#include <tuple>

using namespace attn;

namespace {

/// What the reader can move: how words are cut.
struct Cuts {
    Term<Vector> temperature, top_k, top_p, min_p;
};

/// The two models, and the rows of probabilities that they give guessed words.
struct Guess {
    Term<Integers> drafted;
    Term<Matrix> draft, target;
    Speculation found;
};

// The helpers of teach(), which stand below it in this order.
Cuts cuts_of(Lesson& lesson, std::size_t vocabulary);
void cut(Lesson& lesson, const Term<Matrix>& logits, const Cuts& cuts);
void change_order(Lesson& lesson, const Term<Matrix>& logits, const Cuts& cuts);
Guess guess(Lesson& lesson, const SmallModel& model, const SmallModel& small,
            const Term<Integers>& ids);
std::size_t compare_exactly(Lesson& lesson, const Guess& guess);
void count_draws(Lesson& lesson, const Guess& guess, std::size_t place);
void count_saved(Lesson& lesson);
void write_story(Lesson& lesson, const SmallModel& model, const SmallModel& small,
                 const Integers& prompt);
void take_back(Lesson& lesson, const SmallModel& model, const Integers& ids,
               const Guess& guess);

void teach(Lesson& lesson)
{
    lesson.heading("1. What can come after the sentence, and what is cut");
    const SmallModel model = small_model(), small = small_draft();
    const Term ids = lesson.input("ids[n]", model.ids(sentence()));
    const Cuts cuts = cuts_of(lesson, model.vocabulary.size());
    const Trace words = lesson.trace().scope("words", {{"ids", "ids"}});
    const Term all_logits =
        recorded(gpt(*ids, model.weights, model.options, words), "logits", words);
    const Term last = lesson.trace()("logits[one, vocabulary]",
                                     slice(all_logits, ids.size() - 1, ids.size()));
    cut(lesson, last, cuts);

    lesson.heading("2. Before the temperature, or after it");
    change_order(lesson, last, cuts);

    lesson.heading("3. A draft guesses ahead, and the model accepts or rejects");
    const Guess guessed = guess(lesson, model, small, ids);

    lesson.heading("4. What comes out is distributed as the model's own words");
    const std::size_t place = compare_exactly(lesson, guessed);
    count_draws(lesson, guessed, place);

    lesson.heading("5. What it saves");
    count_saved(lesson);
    if (lesson.is_example()) {
        write_story(lesson, model, small, *ids);
        take_back(lesson, model, *ids, guessed);
    }
}

// ----------------------------------------------------------------- what can come next

Cuts cuts_of(Lesson& lesson, std::size_t vocabulary)
{
    const Cuts cuts{lesson.input("temperature[one]", Vector{2}),
                    reals(lesson.input("top_k[one]", Integers{4})),
                    lesson.input("top_p[one]", Vector{0.8}),
                    lesson.input("min_p[one]", Vector{0.2})};
    const auto expect = [](const char* name, const Term<Vector>& found, bool is_in_range,
                           const std::string& range) {
        if (!is_in_range)
            throw Error(std::string(name) + ": expected " + range + ", found " +
                        exact_text((*found)(0)));
    };
    const auto size = static_cast<double>(vocabulary);
    const auto value = [](const Term<Vector>& number) { return (*number)(0); };
    expect("temperature", cuts.temperature, value(cuts.temperature) > 0,
           "a number above 0");
    expect("top_k", cuts.top_k, value(cuts.top_k) >= 1 && value(cuts.top_k) <= size,
           "1 to " + std::to_string(vocabulary) + ", the words of the model");
    expect("top_p", cuts.top_p, value(cuts.top_p) > 0 && value(cuts.top_p) <= 1,
           "more than 0 and at most 1");
    expect("min_p", cuts.min_p, value(cuts.min_p) >= 0 && value(cuts.min_p) <= 1,
           "0 to 1");
    return cuts;
}

/// What is left is made to sum to 1 again.
Term<Matrix> in_proportion(const Term<Matrix>& kept)
{
    return kept / sum_along(kept, 1, keepdims);
}

void cut(Lesson& lesson, const Term<Matrix>& logits, const Cuts& cuts)
{
    const Trace& trace = lesson.trace();
    //! [chances]
    const Term chances =
        trace("chances[one, vocabulary]", softmax(logits / cuts.temperature));
    //! [chances]

    //! [cuts]
    const auto k = static_cast<std::size_t>((*cuts.top_k)(0));
    const Term among_k = trace("among_k[one, vocabulary]", top_k(chances, k));

    const Term place = arange(size_along(chances, 1));
    const Term is_larger = chances > transpose(chances);
    const Term is_equal = chances == transpose(chances);
    const Term comes_before =
        is_larger | (is_equal & (in_front(place) < each_row(place)));
    const Term before =
        trace("before[vocabulary]", sum_along(where(comes_before, chances, 0), 1));
    const Term in_nucleus =
        trace("in_nucleus[one, vocabulary]", in_front(before) < cuts.top_p);

    const Term likely = trace("likely[one, vocabulary]",
                              chances >= cuts.min_p * max_along(chances, 1, keepdims));
    //! [cuts]

    //! [left]
    const Term by_k =
        trace("by_k[one, vocabulary]", in_proportion(where(among_k, chances, 0)));
    const Term by_p =
        trace("by_p[one, vocabulary]", in_proportion(where(in_nucleus, chances, 0)));
    const Term by_min_p =
        trace("by_min_p[one, vocabulary]", in_proportion(where(likely, chances, 0)));
    //! [left]

    std::vector<std::vector<double>> rows;
    for (const auto& [mask, name] :
         {std::pair{among_k, "kept_by_k"}, std::pair{in_nucleus, "kept_by_p"},
          std::pair{likely, "kept_by_min_p"}})
        rows.push_back({*trace(name, sum_all(ones(mask)))});
    lesson.table({"words left by top-k", "by top-p", "by min-p"},
                 {{rows[0][0], rows[1][0], rows[2][0]}});

    const Trace separate = lesson.unrecorded_trace().scope("separate");
    const double temperature = (*cuts.temperature)(0);
    lesson.expect_equal(
        "token_probabilities() gives the same with top-k", by_k,
        token_probabilities(*logits, {temperature, k, 1, 0}, separate.scope("k")));
    lesson.expect_equal("and with top-p", by_p,
                        token_probabilities(*logits,
                                            {temperature, {}, (*cuts.top_p)(0), 0},
                                            separate.scope("p")));
    lesson.expect_equal("and with min-p", by_min_p,
                        token_probabilities(*logits,
                                            {temperature, {}, 1, (*cuts.min_p)(0)},
                                            separate.scope("min_p")));

    const Trace together = lesson.trace().scope("together", {{"logits", "logits"}});
    //! [together]
    const SamplingOptions all{temperature, k, (*cuts.top_p)(0), (*cuts.min_p)(0)};
    std::ignore = token_probabilities(*logits, all, together);
    //! [together]
}

/// How many words the nucleus has at several temperatures; cut before the temperature, it
/// has as many at each as at 1.
void change_order(Lesson& lesson, const Term<Matrix>& logits, const Cuts& cuts)
{
    const Trace trace =
        lesson.trace().scope("order", {{"logits", "logits"}, {"top_p", "top_p"}});
    const Term temperatures = trace.given("temperatures[t]", Vector{0.5, 1, 2, 4});
    //! [order]
    const Term divided = trace("divided[t, vocabulary]", logits / each_row(temperatures));
    const Term chances = trace("chances[t, vocabulary]", softmax(divided));
    //! [order]
    const SamplingOptions options{.top_p = (*cuts.top_p)(0)};
    const Matrix left =
        token_probabilities(*divided, options, lesson.unrecorded_trace().scope("nuclei"));
    const Term probabilities = trace.given("probabilities[t, vocabulary]", left);
    const Term sizes = trace("sizes[t]", sum_along(ones(probabilities > 0), 1));
    std::vector<std::vector<double>> rows;
    for (std::size_t t = 0; t < temperatures.size(); ++t)
        rows.push_back({(*temperatures)(t), (*sizes)(t)});
    lesson.table({"temperature", "words of the nucleus"}, rows);
}

// --------------------------------------------------------------------- guessing ahead

Integers joined(const Integers& ids, std::int64_t next)
{
    Integers longer(Integers::shape_type{ids.size() + 1});
    std::ranges::copy(ids, longer.begin());
    longer(ids.size()) = next;
    return longer;
}

/// The probabilities of the word after the last of a text.
Vector after(const SmallModel& model, const Integers& ids, const Trace& unrecorded)
{
    const Trace step = unrecorded.scope("after", ids.size());
    const Matrix logits = gpt(ids, model.weights, model.options, step);
    return softmax(Vector(xt::row(logits, ids.size() - 1)));
}

double even(RandomNumbers& numbers) { return (numbers.next() + 1) / 2; }

/// Words that the draft draws one by one.
Integers draft_words(const SmallModel& small, const Integers& ids, std::size_t count,
                     RandomNumbers& numbers, const Trace& unrecorded)
{
    Integers text = ids, drafted(Integers::shape_type{count});
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t word = draw(after(small, text, unrecorded), even(numbers));
        drafted(i) = static_cast<std::int64_t>(word);
        text = joined(text, drafted(i));
    }
    return drafted;
}

Guess guess(Lesson& lesson, const SmallModel& model, const SmallModel& small,
            const Term<Integers>& ids)
{
    const Term guesses = lesson.input("guesses[one]", Integers{4}),
               seed = lesson.input("seed[one]", Integers{35});
    const std::size_t n = ids.size(), most = small.weights.position_embedding.shape(0);
    if (n >= most)
        throw Error("ids: expected at most " + std::to_string(most - 1) +
                    " words, since the models have " + std::to_string(most) +
                    " positions and a guess needs one, found " + std::to_string(n));
    if ((*guesses)(0) < 1 || n + static_cast<std::size_t>((*guesses)(0)) > most)
        throw Error("guesses: expected 1 to " + std::to_string(most - n) +
                    ", since the models have " + std::to_string(most) +
                    " positions, found " + std::to_string((*guesses)(0)));
    const auto k = static_cast<std::size_t>((*guesses)(0));
    RandomNumbers numbers(static_cast<std::uint64_t>((*seed)(0)));
    const Trace drafting = lesson.unrecorded_trace().scope("drafting");
    const Term drafted = lesson.trace().given(
        "drafted[guesses]", draft_words(small, *ids, k, numbers, drafting));
    const Term uniform =
        lesson.trace().given("uniform[guesses]", Vector((numbers.vector(k) + 1.0) / 2.0));

    Integers both = *ids;
    for (const std::int64_t word : *drafted)
        both = joined(both, word);
    const Term text =
        lesson.trace()("text[t]", "concat(ids, drafted, axis=0)", Term(std::move(both)));
    const auto read = [&](std::string_view scope, const SmallModel& reader) {
        const Trace inside = lesson.trace().scope(scope, {{"ids", "text"}});
        return recorded(gpt(*text, reader.weights, reader.options, inside), "logits",
                        inside);
    };
    const Term small_logits = read("small", small), large_logits = read("large", model);

    const Trace trace =
        lesson.trace().scope("guess", {{"drafted", "drafted"}, {"uniform", "uniform"}});
    //! [guess]
    const Term draft = trace("draft[guesses, vocabulary]",
                             softmax(slice(small_logits, n - 1, n - 1 + k)));
    const Term target =
        trace("target[rows, vocabulary]", softmax(slice(large_logits, n - 1, n + k)));
    const Speculation found = speculate(*drafted, *draft, *target, *uniform, trace);
    //! [guess]
    lesson.say("the draft guesses \"" + model.words(*drafted) + "\"; " +
               std::to_string(found.accepted) + " of the words are accepted");
    return {drafted, draft, target, found};
}

/// @return the guess at which drawing from all again would be the most wrong
std::size_t compare_exactly(Lesson& lesson, const Guess& guess)
{
    const Trace exact = lesson.trace().scope(
        "exact", {{"draft", "guess.draft"}, {"all_rows", "guess.target"}});
    const Term draft = guess.draft;
    const Term target =
        exact("target[guesses, vocabulary]", slice(guess.target, 0, draft.shape(0)));
    //! [exact]
    const Term both = exact("both[guesses, vocabulary]", minimum(target, draft));
    const Term accepted = exact("accepted[guesses]", sum_along(both, 1));
    const Term excess = exact("excess[guesses, vocabulary]", relu(target - draft));
    const Term total = maximum(sum_along(excess, 1, keepdims), 1e-300);
    const Term next = exact("next[guesses, vocabulary]", excess / total);
    const Term rejected = each_row(1 - accepted);
    const Term result = exact("result[guesses, vocabulary]", both + rejected * next);
    //! [exact]
    lesson.expect_equal("accepted and drawn anew: the model's own probabilities", result,
                        target);

    const Term again = exact("again[guesses, vocabulary]", both + rejected * target);
    const Term again_off =
        exact("again_off[guesses]", sum_along(abs(again - target), 1) / 2);
    const Term draft_off =
        exact("draft_off[guesses]", sum_along(abs(draft - target), 1) / 2);
    lesson.table({"probability on other words: as described", "drawn from all again",
                  "always accepted"},
                 {{*max_all(sum_along(abs(result - target), 1) / 2), *max_all(again_off),
                   *max_all(draft_off)}});
    return argmax(*again_off);
}

/// One guess, ten thousand times.
/// @param place  which of the guesses
void count_draws(Lesson& lesson, const Guess& guess, std::size_t place)
{
    constexpr std::size_t draws = 10'000;
    const Matrix draft = *slice(guess.draft, place, place + 1),
                 target = *slice(guess.target, place, place + 2);
    const Vector own = xt::row(target, 0);
    RandomNumbers numbers(30);
    Integers counts = xt::zeros<std::int64_t>({own.size()}), again = counts;
    for (std::size_t i = 0; i < draws; ++i) {
        const std::size_t word = draw(xt::row(draft, 0), even(numbers));
        const Vector number{even(numbers)};
        const double second = even(numbers);
        const Speculation one =
            speculate({static_cast<std::int64_t>(word)}, draft, target, number);
        const bool stands = one.accepted == 1;
        ++counts(stands ? word : draw(one.next, second));
        ++again(stands ? word : draw(own, second));
    }
    const Trace counted = lesson.trace().scope("counted", {{"target", "guess.target"}});
    const Term many = counted.given("draws", static_cast<double>(draws));
    std::ignore = counted.given("place", static_cast<std::int64_t>(place));
    const Term chances = counted("chances[vocabulary]", row(guess.target, place));
    std::ignore = counted("deviation[vocabulary]", sqrt(chances * (1 - chances) / many));
    const Term share = counted("share[vocabulary]",
                               reals(counted.given("words[vocabulary]", counts)) / many);
    const Term again_share =
        counted("again_share[vocabulary]",
                reals(counted.given("again[vocabulary]", again)) / many);
    const Term right = counted("off", max_all(abs(share - chances)));
    const Term wrong = counted("again_off", max_all(abs(again_share - chances)));
    lesson.table({"largest error of a share in 10,000 draws", "drawn from all again"},
                 {{*right, *wrong}});
}

// --------------------------------------------------------------------- what it saves

void count_saved(Lesson& lesson)
{
    const Trace saved = lesson.trace().scope("saved");
    const Term rate = saved.given("rate[rates]", Vector{0.5, 0.6, 0.7, 0.8, 0.9});
    const Term guesses = saved.given("guesses[counts]", Vector{1, 2, 3, 4, 6, 8});
    const Term cost = saved.given("cost", 0.2);
    //! [saved]
    const Term words =
        saved("words[rates, counts]",
              (1 - power(each_row(rate), guesses + 1)) / (1 - each_row(rate)));
    const Term faster = saved("faster[rates, counts]", words / (1 + cost * guesses));
    //! [saved]
    lesson.table({"words for each call of the model, of 4 guesses: accepted 0.5", "0.9"},
                 {{(*words)(0, 3), (*words)(4, 3)}});
}

/// A story ends with its last word, or where the model has no more positions.
bool has_ended(const Integers& text, const SmallModel& model)
{
    constexpr std::int64_t end_of_story = 0;
    return text(text.size() - 1) == end_of_story ||
           text.size() == model.weights.position_embedding.shape(0);
}

/// A story to its end, always the likeliest word.
Integers likeliest_story(const SmallModel& model, const Integers& prompt,
                         const Trace& unrecorded)
{
    Integers text = prompt;
    while (!has_ended(text, model))
        text = joined(text,
                      static_cast<std::int64_t>(argmax(after(model, text, unrecorded))));
    return text;
}

/// The same with guesses of the draft: one call of the model reads four of them.
void write_story(Lesson& lesson, const SmallModel& model, const SmallModel& small,
                 const Integers& prompt)
{
    const Trace plain = lesson.unrecorded_trace().scope("alone");
    const Integers story = likeliest_story(model, prompt, plain);
    constexpr std::size_t guesses = 4;
    Integers text = prompt;
    std::int64_t calls = 0;
    for (; !has_ended(text, model); ++calls) {
        const Trace call = lesson.unrecorded_trace().scope("call", calls);
        const std::size_t n = text.size();
        Integers guessed = text;
        while (guessed.size() < n + guesses && !has_ended(guessed, model))
            guessed = joined(
                guessed, static_cast<std::int64_t>(argmax(after(small, guessed, call))));
        const Matrix logits = gpt(guessed, model.weights, model.options, call);
        for (std::size_t i = n; !has_ended(text, model); ++i) {
            const Vector row = xt::row(logits, i - 1);
            const auto own = static_cast<std::int64_t>(argmax(row));
            text = joined(text, own);
            if (i == guessed.size() || guessed(i) != own)
                break;
        }
    }
    lesson.say(model.words(text));
    lesson.expect("always the likeliest word: the story is the same with guesses",
                  text == story);
    const Trace written = lesson.trace().scope("written");
    const std::size_t many = text.size() - prompt.size();
    const Term words = written.given("words", static_cast<double>(many));
    const Term needed = written.given("calls", static_cast<double>(calls));
    const Term each = written("words_each_call", words / needed);
    lesson.table({"words written", "calls of the model", "words for each"},
                 {{*words, *needed, *each}});
}

/// The model reads the guesses beside its cache, and the rejected ones are taken back.
void take_back(Lesson& lesson, const SmallModel& model, const Integers& ids,
               const Guess& guess)
{
    const Integers& drafted = *guess.drafted;
    const std::size_t n = ids.size(), guessed = n + drafted.size(),
                      kept = n + guess.found.accepted;
    Integers wrong = ids, right = ids;
    for (std::size_t i = 0; i < drafted.size(); ++i) {
        wrong = joined(wrong, drafted(i));
        if (i < guess.found.accepted)
            right = joined(right, drafted(i));
    }
    right = joined(right, static_cast<std::int64_t>(argmax(guess.found.next)));

    const LanguageModelWeights weights = as_language_model(model.weights);
    LanguageModelDescription description;
    description.layers.resize(weights.layers.size());
    for (BlockDescription& layer : description.layers)
        layer.attention.heads = model.heads;
    //! [back]
    const Schedule schedule{{{{0, 0, n}},                // the prompt
                             {{0, n, guessed}},          // the guesses
                             {{1, kept, kept + 1, 0}}}}; // one word in place of some
    //! [back]
    const Trace unrecorded = lesson.unrecorded_trace();
    const std::vector<Matrix> found = run_schedule({wrong, right}, schedule, weights,
                                                   description, unrecorded.scope("back"));
    const Matrix whole =
        language_model(right, weights, description, unrecorded.scope("whole"));
    lesson.expect_equal("after guesses were taken back, others have the right logits",
                        found.at(1), whole);
}

} // namespace

int main(int argc, char** argv) { return Lesson::run("30_choosing", argc, argv, teach); }
