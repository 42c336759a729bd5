// Mistakes of training: those of lesson 15, made in float32 with ways back that are written by hand, or by another trace, and
// looked for in the trace of the step.

#include "runs.hpp"
#include "test.hpp"
#include "engines/train/examples.hpp"
#include "lessons/15_training/reviews/examples.hpp"

#include "attn/engines/train/audit.hpp"
#include "attn/engines/train/batches.hpp"
#include "attn/engines/train/parameters.hpp"
#include "attn/files/weights/gpt.hpp"
#include "attn/formula/gradient.hpp"
#include "lessons/15_training/mistakes.hpp"

using namespace attn;
using namespace attn::diff;
using namespace attn::files;
using namespace attn::formula;
using namespace attn::train;
using namespace attn::test;

namespace {

/// Texts that end with the id that pads them, as the stories of the small model do.
std::vector<Text> ended(std::vector<Text> texts)
{
    for (Text& text : texts)
        text.back() = 0;
    return texts;
}

/// A small decoder, some texts of different lengths, and steps of its training as traces.
struct Training {
    Numbers numbers{5};
    GptWeights weights = random_decoder(numbers, 9, 6, 5, 1);
    std::vector<Text> texts = ended(random_texts(numbers, 5, 9));
    GptTrainingOptions options{.model = {.heads = 2}};

    /// The step after those that a trainer has taken.
    Recording next_step(const AdamState& state) const
    {
        const TextBatch batch = batch_of(texts);
        const auto run = [&](const GptWeights& of, const Trace& trace) {
            (void)cross_entropy(gpt(batch.ids, {}, of, options.model, trace), batch.targets, {}, trace);
        };
        const std::uint64_t t = state.steps + 1;
        return audit_step(unpacked(state.weights, weights), unpacked(state.first, weights),
                          unpacked(state.second, weights), run, options.adam,
                          adam_factors(options.adam, options.rate(t), t));
    }

    /// What somebody saves of a first step in float32: the loss, and the gradients of the two embeddings.
    NamedArrays first_step(const TrainingMistake& mistake) const
    {
        GptTrainer one(weights, mistake.in(options));
        NamedArrays saved{{"loss", Array{{}, {mistake.step(one, texts)}}}};
        const GptWeights first = unpacked(one.state().first, weights);
        const auto gradient = [&](const Matrix& mean) { return to_array(Matrix(mean / (1 - options.adam.beta1))); };
        saved.emplace("grad.token_embedding", gradient(first.token_embedding));
        saved.emplace("grad.position_embedding.table", gradient(first.position_embedding));
        for (auto& [name, array] : saved)
            for (double& value : array.values)
                value = static_cast<float>(value);
        return saved;
    }
};

const TrainingMistake& mistake_called(std::string_view name)
{
    return *std::ranges::find(training_mistakes, name, &TrainingMistake::name);
}

std::vector<std::string_view> names_of(const Diff& result)
{
    std::vector<std::string_view> ids;
    for (const Diagnosis& one : diagnose(result))
        ids.push_back(one.pitfall->id);
    return ids;
}

/// Of the mistake that explains the numbers best.
std::string_view first_name_of(const Diff& result)
{
    const std::vector<std::string_view> ids = names_of(result);
    return ids.empty() ? "none" : ids.front();
}

const Array& numbers_of(const Recording& recording, const std::string& path)
{
    return recording.steps.at(StepNames(recording).find(path).value()).value;
}

} // namespace

TEST_CASE("a right step of training is right, from its loss and from gradients", "[diff][train][pitfalls]")
{
    const Training training;
    const Recording reference = training.next_step(AdamState(packed(training.weights)));
    NamedArrays mine = training.first_step({});
    CHECK(diff::compare(reference, mine).passed());
    mine.erase("loss");
    CHECK(diff::compare(reference, mine).passed());
}

TEST_CASE("a mistake in the loss or the embedding is named in a step of training",
          "[diff][train][diagnose][pitfalls][slow]")
{
    const Training training;
    const Recording reference = training.next_step(AdamState(packed(training.weights)));
    const std::vector<std::pair<std::string_view, std::string_view>> mistakes{
        {"targets-not-shifted", "train_targets_not_shifted"},
        {"padding-in-loss", "train_padding_in_loss"},
        {"softmax-twice", "train_softmax_before_loss"},
        {"positions-forgotten", "train_positions_forgotten"}};
    for (const auto& [name, id] : mistakes) {
        CAPTURE(id);
        const TrainingMistake& mistake = mistake_called(name);
        NamedArrays mine = training.first_step(mistake);
        CHECK(first_name_of(diff::compare(reference, mine)) == id);
        CHECK(first_name_of(diff::compare(reference, {{"loss", mine.at("loss")}})) == id);
        mine.erase("loss"); // without positions, all that a gradient shows is that theirs is zero
        if (mistake.has_positions)
            CHECK(first_name_of(diff::compare(reference, mine)) == id);
    }
}

TEST_CASE("gradients that are not cleared are named in the second step", "[diff][train][diagnose][pitfalls]")
{
    const Training training;
    const TrainingMistake& mistake = mistake_called("gradients-not-cleared");
    GptTrainer right(training.weights, training.options), mistaken(training.weights, training.options);
    right.step(training.texts);
    mistake.step(mistaken, training.texts);
    const Recording reference = training.next_step(right.state());
    mistake.step(mistaken, training.texts);
    right.step(training.texts);
    const auto saved = [&](const GptTrainer& of) {
        const Matrix first = unpacked(of.state().first, training.weights).token_embedding,
                     second = unpacked(of.state().second, training.weights).token_embedding;
        return NamedArrays{{"adam.token_embedding.first", to_array(first)},
                           {"adam.token_embedding.second", to_array(second)},
                           {"adam.token_embedding.after", to_array(of.weights().token_embedding)}};
    };
    CHECK(diff::compare(reference, saved(right)).passed());
    CHECK(names_of(diff::compare(reference, saved(mistaken))) ==
          std::vector<std::string_view>{"train_gradients_not_cleared"});
}

TEST_CASE("targets that are shifted twice, and padding in the mean alone, are named",
          "[diff][train][diagnose][pitfalls]")
{
    const Training training;
    const Recording reference = training.next_step(AdamState(packed(training.weights)));
    const TextBatch batch = batch_of(training.texts);
    const Tensor3 logits = gpt(batch.ids, {}, training.weights, training.options.model);
    IntegerMatrix again = xt::ones<std::int64_t>(batch.targets.shape()) * ignored_target;
    for (std::size_t b = 0; b < again.shape(0); ++b)
        for (std::size_t i = 0; i + 1 < again.shape(1); ++i)
            again(b, i) = batch.targets(b, i + 1);
    const auto named_for = [&](double loss) {
        return names_of(diff::compare(reference, {{"loss", Array{{}, {loss}}}}));
    };
    CHECK(named_for(cross_entropy(logits, again)) == std::vector<std::string_view>{"train_targets_not_shifted"});
    const double sum = cross_entropy(logits, batch.targets) *
                       static_cast<double>(std::ranges::count_if(batch.targets, [](auto id) { return id >= 0; }));
    CHECK(named_for(sum / static_cast<double>(batch.targets.size())) ==
          std::vector<std::string_view>{"train_padding_in_loss"});
}

TEST_CASE("dropout that is on in a test is named by its zeros", "[diff][train][diagnose][pitfalls]")
{
    Numbers numbers(6);
    const ReviewClassifierWeights weights = random_reviewer(numbers, {});
    const Reviews reviews = random_reviews(numbers, 4, 7, 11);
    const auto recorded = [&](const std::optional<Matrix>& mask) {
        Recorder recorder;
        (void)review_classifier(reviews.ids, mask, weights, {3, true}, Trace(recorder));
        return recorder.recording();
    };
    const Recording reference = recorded({});
    for (const double rate : {0.1, 0.5}) {
        CAPTURE(rate);
        const Recording mistaken = recorded(dropout_mask(4, 6, rate, 1, 0));
        const NamedArrays mine{{"pooled", numbers_of(mistaken, "dropped")}, {"logits", numbers_of(mistaken, "logits")}};
        CHECK(names_of(diff::compare(reference, mine)) == std::vector<std::string_view>{"dropout_on"});
    }
    // Numbers that are all twice as large, or all zero, are another mistake.
    for (const double factor : {2.0, 0.0}) {
        Array other = numbers_of(reference, "pooled");
        for (double& value : other.values)
            value *= factor;
        CHECK(names_of(diff::compare(reference, {{"pooled", other}})).empty());
    }
}
