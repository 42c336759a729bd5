#include "lessons/15_training/reviews/trainer.hpp"

#include "examples.hpp"
#include "test.hpp"

#include "attn/engines/train/batches.hpp"
#include "attn/engines/train/loss.hpp"

#include <numeric>

using namespace attn;
using namespace attn::train;
using namespace attn::formula;
using namespace attn::test;

namespace {

std::vector<std::size_t> all_of(const Reviews& reviews)
{
    std::vector<std::size_t> rows(reviews.labels.size());
    std::iota(rows.begin(), rows.end(), std::size_t{0});
    return rows;
}

} // namespace

TEST_CASE("the classifier's float32 gradient of every weight is that of its formulas", "[train]")
{
    Numbers numbers(1);
    for (const ReviewSizesGiven& sizes :
         {ReviewSizesGiven{}, {5, 4, 1, 4, 4}, {17, 7, 2, 3, 5}, {9, 8, 4, 1, 2}, {30, 16, 2, 8, 8}})
        for (const bool has_positions : {false, true})
            for (const double rate : {0.0, 0.5}) {
                CAPTURE(sizes.d_model, sizes.heads, has_positions, rate);
                const ReviewClassifierWeights weights = random_reviewer(numbers, sizes);
                const Reviews reviews = random_reviews(numbers, 7, 5 + sizes.heads * 4, sizes.vocabulary);
                std::optional<Matrix> mask;
                if (rate > 0)
                    mask = dropout_mask(7, sizes.heads * sizes.d_v, rate, 3, sizes.d_model);
                const ReviewClassifierOptions model{sizes.heads, has_positions};
                Recorder forward;
                const Trace trace(forward);
                const Vector logits = review_classifier(reviews.ids, mask, weights, model, trace);
                const double loss = binary_cross_entropy(logits, reviews.labels, trace);
                CHECK(verify(forward.recording()).passed());
                const auto expected = gradient_by_formulas(forward, weights);

                ReviewTrainer trainer(weights, {.model = model, .threads = 2});
                const auto [error, where] =
                    worst_difference(trainer.gradient(reviews, all_of(reviews), mask), expected);
                CAPTURE(where);
                CHECK(error < 1e-5);
                if (!mask)
                    CHECK(std::abs(trainer.evaluate(reviews).loss - loss) < 1e-5);
            }
}

TEST_CASE("one thread and several train the classifier to the same numbers, and so does an interrupted training",
          "[train]")
{
    Numbers numbers(3);
    const ReviewSizesGiven sizes{40, 12, 2, 6, 6};
    const ReviewClassifierWeights weights = random_reviewer(numbers, sizes);
    const Reviews reviews = random_reviews(numbers, 90, 9, sizes.vocabulary);
    const auto trained = [&](std::size_t threads, std::size_t interruption) {
        const ReviewTrainingOptions options{.model = {2, true}, .threads = threads};
        auto trainer = std::make_unique<ReviewTrainer>(weights, options);
        std::vector<double> losses;
        for (std::size_t step = 0; step < 30; ++step) {
            if (step == interruption) {
                const AdamState state = trainer->state();
                trainer = std::make_unique<ReviewTrainer>(weights, options);
                trainer->restore(state);
            }
            const std::vector<std::size_t> order = shuffled(90, 1, step);
            losses.push_back(trainer->step(reviews, std::span(order).first(3 + step)).loss);
        }
        const AdamState& state = trainer->state();
        return std::tuple(losses, state.weights, state.first, state.second, state.steps);
    };
    const auto once = trained(1, 100);
    CHECK(trained(3, 100) == once);
    CHECK(trained(2, 11) == once);
}

TEST_CASE("the classifier's trainer refuses what it can't train, and names it", "[train]")
{
    Numbers numbers(5);
    const ReviewSizesGiven sizes;
    const ReviewClassifierWeights weights = random_reviewer(numbers, sizes);
    const ReviewTrainingOptions options{.model = {3}};
    Reviews reviews = random_reviews(numbers, 2, 4, sizes.vocabulary);
    ReviewTrainer trainer(weights, options);
    const std::vector<std::size_t> rows{0, 1};
    reviews.labels(1) = 2;
    CHECK_THROWS_WITH(trainer.step(reviews, rows), "review 1 has the label 2, expected 0 or 1");
    reviews.labels(1) = 1;
    reviews.ids(0, 3) = 11;
    CHECK_THROWS_WITH(trainer.step(reviews, rows), "review 0 has the word 11, expected ids from 0 to 10");
    reviews.ids(0, 3) = -1;
    CHECK_THROWS_WITH(trainer.step(reviews, rows), "review 0 has the word -1, expected ids from 0 to 10");
    CHECK_THROWS_WITH(ReviewTrainer(weights, {.model = {4}}),
                      ContainsSubstring("can't be divided evenly among 4 heads"));
    CHECK_THROWS_WITH(ReviewTrainer(weights, {.model = {3}, .adam = {.weight_decay = 0.1}}),
                      ContainsSubstring("weight_decay is 0.1, expected 0"));
    CHECK_THROWS_WITH(trainer.restore(AdamState(std::vector<float>(3))), ContainsSubstring("has 3 weights, expected"));
}
