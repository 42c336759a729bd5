#include "lessons/15_training/reviews/classifier.hpp"

#include "interventions.hpp"
#include "examples.hpp"
#include "step_tables.hpp"
#include "test.hpp"

#include "attn/files/weights/state_dict.hpp"

using namespace attn;
using namespace attn::files;
using namespace attn::formula;
using namespace attn::train;
using namespace attn::test;

namespace {

const IntegerMatrix two_texts{{3, 0, 10, 3, 1}, {0, 0, 7, 2, 2}};

} // namespace

TEST_CASE("a classifier's logit is the output of the mean of what each word attends to", "[models][review_classifier]")
{
    Numbers numbers(1);
    const ReviewClassifierWeights weights = random_reviewer(numbers, {});
    const Vector logits = review_classifier(two_texts, {}, weights, {.heads = 3});
    for (std::size_t text = 0; text < 2; ++text) {
        Matrix words(Matrix::shape_type{5, 6});
        for (std::size_t i = 0; i < 5; ++i)
            for (std::size_t j = 0; j < 6; ++j)
                words(i, j) = weights.embedding.table(static_cast<std::size_t>(two_texts(text, i)), j);
        const MultiHeadWeights maps{{weights.attention.query}, {weights.attention.key}, {weights.attention.value}};
        const Matrix attended = multi_head_attention(words, maps, {.heads = 3}).output;
        double logit = (*weights.output.bias)(0);
        for (std::size_t i = 0; i < 5; ++i)
            for (std::size_t j = 0; j < 6; ++j)
                logit += attended(i, j) / 5 * weights.output.weight(j, 0);
        CHECK(std::abs(logits(text) - logit) < 1e-13);
    }
}

TEST_CASE("without positions the order of words does not matter to a classifier, with them it does",
          "[models][review_classifier]")
{
    Numbers numbers(2);
    const ReviewClassifierWeights weights = random_reviewer(numbers, {});
    const IntegerMatrix there{{3, 0, 10, 4}}, back{{4, 10, 0, 3}};
    const auto difference = [&](bool has_positions) {
        const ReviewClassifierOptions options{3, has_positions};
        return std::abs(review_classifier(there, {}, weights, options)(0) -
                        review_classifier(back, {}, weights, options)(0));
    };
    CHECK(difference(false) < 1e-14);
    CHECK(difference(true) > 1e-4);
}

TEST_CASE("a classifier's steps are those of its doc comment, and it goes on with what steps are replaced by",
          "[models][review_classifier][steps]")
{
    Numbers numbers(3);
    const ReviewClassifierWeights weights = random_reviewer(numbers, {});
    const Matrix mask = numbers.matrix(2, 6);
    const auto run = [&](const Trace& trace) { (void)review_classifier(two_texts, mask, weights, {3, true}, trace); };
    Recorder recorder;
    run(Trace(recorder));
    CHECK(verify(recorder.recording()).passed());
    Lines own = promised("../../lessons/15_training/reviews/classifier.hpp", "review_classifier"),
          found = kept(recorder, "review_classifier");
    for (const char* name : {"frequencies", "angles", "positions"}) // those of sinusoidal_positions()
        for (Lines* rows : {&own, &found})
            CHECK(std::erase_if(*rows, [&](const std::string& row) { return row.starts_with(name); }) == 1);
    CHECK(different_rows(own, found) == "");
    CHECK(expect_replacements_used(run) > 60);
}

TEST_CASE("a classifier's weights come back as they were written, and the experiment's has 2,609,281 of them",
          "[weights][review_classifier]")
{
    Numbers numbers(4);
    const ReviewClassifierWeights weights = random_reviewer(numbers, {11, 6, 3, 2, 1});
    const ReviewClassifierWeights back = load_weights<ReviewClassifierWeights>(state_dict(weights), {});
    CHECK(same_bits(review_classifier(two_texts, {}, back, {3}), review_classifier(two_texts, {}, weights, {3})));
    const std::vector<Parameter> all = parameters(initial_review_classifier(20000, 128, 1));
    CHECK(total(all) == 20000 * 128 + 3 * 128 * 128 + 128 + 1);
    CHECK(all.front().name == "embedding.weight");
    CHECK(all.back().name == "output.bias");
}

TEST_CASE("a classifier refuses ids and a mask that do not fit", "[models][review_classifier]")
{
    Numbers numbers(5);
    const ReviewClassifierWeights weights = random_reviewer(numbers, {});
    CHECK_THROWS_WITH(review_classifier({{11}}, {}, weights, {3}), ContainsSubstring("is 11, but table (11, 6)"));
    CHECK_THROWS_WITH(review_classifier({{1}}, Matrix{{1, 1}}, weights, {3}), ContainsSubstring("must agree in h d_v"));
    CHECK_THROWS_WITH(review_classifier({{1}}, {}, weights, {4}),
                      ContainsSubstring("can't be divided evenly among 4 heads"));
}
