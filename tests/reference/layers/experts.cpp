#include "attn/reference/layers/experts.hpp"

#include "laws.hpp"
#include "step_tables.hpp"
#include "caught.hpp"
#include "test.hpp"

#include "attn/core/choices.hpp"
#include "attn/core/shape.hpp"
#include "attn/reference/layers/activation.hpp"
#include "attn/reference/ops/softmax.hpp"

#include <map>

using namespace attn;
using namespace attn::test;

namespace {

// ------------------------------------------------------------------------------------------------------------- by hand

/// One row's numbers.
std::vector<double> row_of_numbers(const Matrix& matrix, std::size_t row)
{
    std::vector<double> numbers(matrix.shape(1));
    for (std::size_t j = 0; j < numbers.size(); ++j)
        numbers[j] = matrix(row, j);
    return numbers;
}

/// The mixture of Mixtral and its like, token by token: each goes to its own experts only.
Matrix sparse_by_hand(const Matrix& x, const ExpertsWeights& weights, std::size_t top)
{
    const Matrix scores = softmax(product_by_hand(x, weights.router.weight));
    Matrix result(x.shape(), 0.0);
    for (std::size_t i = 0; i < x.shape(0); ++i) {
        std::vector<double> left = row_of_numbers(scores, i);
        std::map<std::size_t, double> chosen;
        double total = 0;
        while (chosen.size() < top) {
            const auto best = static_cast<std::size_t>(std::ranges::max_element(left) - left.begin());
            total += chosen[best] = left[best];
            left[best] = -1;
        }
        for (const auto& [expert, score] : chosen) {
            const Matrix output = gated_feed_forward(row_by_hand(x, i), weights.experts[expert]);
            for (std::size_t j = 0; j < x.shape(1); ++j)
                result(i, j) += score / total * output(0, j);
        }
    }
    return result;
}

/// Options of all sorts, each with how many experts they are for.
std::vector<std::pair<std::size_t, ExpertsOptions>> all_options()
{
    std::vector<std::pair<std::size_t, ExpertsOptions>> all;
    for (const ExpertScoring scoring : enumerators<ExpertScoring>)
        for (const ExpertNormalization normalization : enumerators<ExpertNormalization>)
            for (const ExpertWeighting weighting : enumerators<ExpertWeighting>)
                all.push_back({4, {.scoring = scoring, .normalization = normalization, .weighting = weighting}});
    for (const ExpertGroups& groups : {ExpertGroups{3, 2, 1}, ExpertGroups{3, 1, 2}, ExpertGroups{2, 1, 3}})
        all.push_back({6, {.scaling_factor = 2.5, .groups = groups}});
    return all;
}

} // namespace

TEST_CASE("a token's result is that of its experts only, each weighted by its share", "[layers][experts]")
{
    Numbers numbers(1);
    const Matrix x = numbers.matrix(9, 4);
    const ExpertsWeights weights = random_experts(numbers, 4, 3, 5, false);
    for (std::size_t top = 1; top <= 5; ++top) {
        CAPTURE(top);
        CHECK(close(experts(x, weights, {.top = top}), sparse_by_hand(x, weights, top)));
    }
}

TEST_CASE("with all experts chosen, a mixture is the dense one: softmax of the logits, times what each expert gives",
          "[layers][experts][property]")
{
    Numbers numbers(2);
    const Matrix x = numbers.matrix(5, 4);
    const ExpertsWeights weights = random_experts(numbers, 4, 3, 6, false);
    const Matrix shares = softmax(product_by_hand(x, weights.router.weight));
    Matrix dense(x.shape(), 0.0);
    for (std::size_t e = 0; e < 6; ++e) {
        const Matrix output = gated_feed_forward(x, weights.experts[e]);
        for (std::size_t i = 0; i < 5; ++i)
            for (std::size_t j = 0; j < 4; ++j)
                dense(i, j) += shares(i, e) * output(i, j);
    }
    for (const ExpertNormalization normalization : {ExpertNormalization::sum, ExpertNormalization::none})
        CHECK(close(experts(x, weights, {.top = 6, .normalization = normalization}), dense));
}

TEST_CASE("softmax over the chosen is softmax over all, divided by the sum of the chosen",
          "[layers][experts][property]")
{
    Numbers numbers(3);
    const Matrix x = numbers.matrix(7, 4);
    const ExpertsWeights weights = random_experts(numbers, 4, 3, 6, false);
    for (std::size_t top = 1; top <= 6; ++top)
        CHECK(close(
            experts(x, weights, {.top = top}),
            experts(x, weights,
                    {.top = top, .scoring = ExpertScoring::logits, .normalization = ExpertNormalization::softmax})));
}

TEST_CASE("experts in another order, with what the router has of them, give the same", "[layers][experts][property]")
{
    Numbers numbers(4);
    const Matrix x = numbers.matrix(6, 4);
    const ExpertsWeights weights = random_experts(numbers, 4, 3, 4);
    const std::vector<std::size_t> order{2, 0, 3, 1};
    ExpertsWeights permuted = weights;
    for (std::size_t i = 0; i < 4; ++i) {
        permuted.experts[i] = weights.experts[order[i]];
        (*permuted.correction_bias)(i) = (*weights.correction_bias)(order[i]);
        for (std::size_t j = 0; j < 4; ++j)
            permuted.router.weight(j, i) = weights.router.weight(j, order[i]);
    }
    for (const auto& [count, options] : all_options())
        if (count == 4)
            CHECK(close(experts(x, permuted, options), experts(x, weights, options)));
}

TEST_CASE("one group, or all groups, is no choice of groups", "[layers][experts][property]")
{
    Numbers numbers(5);
    const Matrix x = numbers.matrix(6, 4);
    const ExpertsWeights weights = random_experts(numbers, 4, 3, 6);
    for (const ExpertGroups& groups : {ExpertGroups{1, 1, 2}, ExpertGroups{3, 3, 2}, ExpertGroups{6, 6, 1}})
        CHECK(same_bits(experts(x, weights, {.groups = groups}), experts(x, weights)));
}

TEST_CASE("a correction bias changes who is chosen, never how much of an expert a token has",
          "[layers][experts][property]")
{
    Numbers numbers(6);
    const Matrix x = numbers.matrix(6, 4);
    const ExpertsWeights weights = random_experts(numbers, 4, 3, 4, false);
    ExpertsWeights corrected = weights;
    const ExpertsOptions options{.scoring = ExpertScoring::sigmoid};
    corrected.correction_bias = Vector{0.5, 0.5, 0.5, 0.5}; // the same for all: as good as none
    CHECK(same_bits(experts(x, corrected, options), experts(x, weights, options)));
    corrected.correction_bias = Vector{0, 10, 0, 10};
    const ExpertsWeights two{{Matrix(Matrix::shape_type{4, 2})}, {}, {weights.experts[1], weights.experts[3]}};
    ExpertsWeights left = two;
    for (std::size_t j = 0; j < 4; ++j) {
        left.router.weight(j, 0) = weights.router.weight(j, 1);
        left.router.weight(j, 1) = weights.router.weight(j, 3);
    }
    CHECK(close(experts(x, corrected, options), experts(x, left, options)));
}

TEST_CASE("a mixture of experts works on each token by itself, in a sequence and in a batch",
          "[layers][experts][batch]")
{
    Numbers numbers(7);
    const Tensor3 batch = numbers.tensor3(2, 3, 4);
    for (const auto& [count, options] : all_options()) {
        const ExpertsWeights weights = random_experts(numbers, 4, 3, count);
        const Tensor3 all = experts(batch, weights, options);
        REQUIRE(shape_of(all) == Shape{2, 3, 4});
        for (std::size_t b = 0; b < 2; ++b)
            for (std::size_t i = 0; i < 3; ++i)
                CHECK(close(row_by_hand(sequence_by_hand(all, b), i),
                            experts(row_by_hand(sequence_by_hand(batch, b), i), weights, options)));
    }
}

TEST_CASE("a traced mixture of experts gives the same bits, and every formula holds", "[layers][experts][trace]")
{
    Numbers numbers(8);
    const Matrix x = numbers.matrix(3, 4);
    const Tensor3 batch = numbers.tensor3(2, 3, 4);
    for (const auto& [count, options] : all_options())
        for (const bool has_all_parts : {true, false}) {
            CAPTURE(name_of(options.scoring), name_of(options.normalization), name_of(options.weighting), count,
                    has_all_parts);
            const ExpertsWeights weights = random_experts(numbers, 4, 3, count, has_all_parts);
            const auto check = [&, &options = options](const auto& tokens) {
                traced([&](const Trace& trace) { return experts(tokens, weights, options, trace); });
            };
            check(x);
            check(batch);
        }
}

TEST_CASE("tokens that like two experts equally have the first one", "[layers][experts]")
{
    Numbers numbers(9);
    const Matrix x = numbers.matrix(3, 4);
    ExpertsWeights weights = random_experts(numbers, 4, 3, 3, false);
    weights.router.weight.fill(0.0);
    CHECK(close(experts(x, weights, {.top = 1}), gated_feed_forward(x, weights.experts[0])));
}

TEST_CASE("sigmoids that are all 0 are weights that are all 0", "[layers][experts]")
{
    Numbers numbers(10);
    const Matrix x{{1, 1, 1, 1}};
    ExpertsWeights weights = random_experts(numbers, 4, 3, 3, false);
    weights.router.weight.fill(-1000.0);
    CHECK(close(experts(x, weights, {.scoring = ExpertScoring::sigmoid}), Matrix{{0, 0, 0, 0}}));
}

TEST_CASE("the doc comment of experts lists its steps", "[layers][experts][steps][source]")
{
    Numbers numbers(11);
    const Matrix x = numbers.matrix(3, 4);
    const ExpertsWeights weights = random_experts(numbers, 4, 3, 2, false);
    const Recorder recorder = recorded([&](const Trace& trace) { experts(x, weights, {.top = 2}, trace); });
    const Lines table = with_numbers(promised("reference/layers/experts.hpp", "experts"), {{"K", "2"}});
    REQUIRE(table.size() == 16);
    CHECK(different_among(table, recorder) == "");
    CHECK(recorder.recording().aliases.size() == 6);
    CHECK(kept(recorder, "experts").size() == 10);
    for (const Step& step : recorder.steps())
        if (step.module == "experts")
            CHECK(step.options == StepOptions{{"top", "2"}, {"scoring", "softmax"}, {"normalization", "sum"}});
}

TEST_CASE("the doc comment of groups lists their steps", "[layers][experts][steps][source]")
{
    Numbers numbers(14);
    const Matrix x = numbers.matrix(3, 4);
    const ExpertsWeights weights = random_experts(numbers, 4, 3, 6);
    const ExpertsOptions options{.groups = ExpertGroups{3, 2, 1}};
    const Recorder recorder = recorded([&](const Trace& trace) { experts(x, weights, options, trace); });
    const Lines table = with_numbers(promised("reference/layers/experts.hpp", "struct ExpertGroups {"),
                                     {{"N", "3"}, {"G", "3"}, {"S", "2"}, {"BEST", "1"}, {"KEPT", "2"}});
    REQUIRE(table.size() == 4);
    CHECK(different_among(table, recorder) == "");
}

TEST_CASE("choices of a mixture of experts have the names that a command line has for them", "[layers][experts]")
{
    CHECK(name_of(ExpertScoring::softmax) == "softmax");
    CHECK(name_of(ExpertScoring::sigmoid) == "sigmoid");
    CHECK(name_of(ExpertScoring::logits) == "logits");
    CHECK(name_of(ExpertNormalization::sum) == "sum");
    CHECK(name_of(ExpertNormalization::softmax) == "softmax");
    CHECK(name_of(ExpertNormalization::none) == "none");
    CHECK(name_of(ExpertWeighting::output) == "output");
    CHECK(name_of(ExpertWeighting::input) == "input");
}

TEST_CASE("a mixture of experts refuses tokens and weights that disagree", "[layers][experts]")
{
    Numbers numbers(12);
    const Matrix x = numbers.matrix(2, 4);
    const ExpertsWeights right = random_experts(numbers, 4, 3, 4);
    const auto refusal = [&](const auto& change, const ExpertsOptions& options = {}) -> std::string {
        ExpertsWeights weights = right;
        change(weights);
        return caught<Error>([&] { experts(x, weights, options); });
    };
    const auto nothing = [](ExpertsWeights&) {};
    CHECK_THROWS_WITH(experts(numbers.matrix(2, 5), right), ContainsSubstring("x (2, 5) and router weights (4, 4) must "
                                                                              "agree in d_model"));
    CHECK(refusal([](ExpertsWeights& w) { w.experts.pop_back(); }) ==
          "experts: router weights (4, 4) choose among 4 experts, and 3 are given");
    CHECK_THAT(refusal([&](ExpertsWeights& w) { w.correction_bias = numbers.vector(3); }),
               ContainsSubstring("router weights (4, 4) and correction bias (3,) must agree in experts"));
    CHECK_THAT(refusal([&](ExpertsWeights& w) { w.experts[2] = random_gated_feed_forward(numbers, 5, 3); }),
               ContainsSubstring("x (2, 4) and expert 2's gate weights (5, 3) must agree in d_model"));
    CHECK_THAT(refusal([&](ExpertsWeights& w) { w.experts[1].down = random_linear(numbers, 3, 1); }),
               ContainsSubstring("x (2, 4) and expert 1's down weights (3, 1) must agree in d_model"));
    CHECK_THAT(refusal([&](ExpertsWeights& w) { w.shared_expert->down = random_linear(numbers, 3, 1); }),
               ContainsSubstring("x (2, 4) and the shared expert's down weights (3, 1) must agree in d_model"));
    CHECK(refusal([&](ExpertsWeights& w) { w.shared_expert_gate = random_linear(numbers, 4, 2); }) ==
          "experts: the shared expert's gate weights are (4, 2), expected (d_model, 1) = (4, 1)");
    CHECK(refusal([](ExpertsWeights& w) { w.shared_expert.reset(); }) ==
          "experts: there is a gate of the shared expert, and no shared expert");
    CHECK(refusal(nothing, {.top = 5}) == "experts: each token should have 5 of 4 experts: expected 1 to 4");
    CHECK(refusal(nothing, {.top = 0}) == "experts: each token should have 0 of 4 experts: expected 1 to 4");
    CHECK(refusal(nothing, {.top = 3, .groups = ExpertGroups{2, 1, 1}}) ==
          "experts: each token should have 3 of 4 experts, of which its groups have 2: expected 1 to 2");
    CHECK(refusal(nothing, {.groups = ExpertGroups{3, 1, 1}}) ==
          "experts: 4 experts can't be divided evenly among 3 groups");
    CHECK(refusal(nothing, {.groups = ExpertGroups{2, 3, 1}}) ==
          "experts: each token should have 3 groups of 2, expected 1 to 2");
    CHECK(refusal(nothing, {.groups = ExpertGroups{2, 1, 3}}) ==
          "experts: a group's score should be the sum of its 3 best experts, and it has 2: expected 1 to 2");
}

TEST_CASE("a limit and a shift change the gate and up of a gated network as they say", "[layers][gated_feed_forward]")
{
    Numbers numbers(13);
    const Matrix x = numbers.matrix(5, 4);
    const GatedFeedForwardWeights weights = random_gated_feed_forward(numbers, 4, 6, true);
    const Recorder plain = recorded([&](const Trace& trace) { gated_feed_forward(x, weights, {}, trace); });
    const GatedFeedForwardOptions options{.activation = Activation::quick_gelu, .limit = 2.5, .up_shift = 1};
    const Recorder limited = traced([&](const Trace& trace) { return gated_feed_forward(x, weights, options, trace); });
    const auto values = [](const Recorder& recorder, const std::string& path) {
        return std::ranges::find(recorder.steps(), path, &Step::path)->value.values;
    };
    const std::vector<double> gate = values(plain, "gate"), up = values(plain, "up"), gated = values(limited, "gated");
    std::size_t above = 0, below = 0;
    for (std::size_t i = 0; i < gate.size(); ++i) {
        above += gate[i] > 2.5;
        below += up[i] < -2.5;
        const double g = std::min(gate[i], 2.5), u = std::clamp(up[i], -2.5, 2.5);
        CHECK(gated[i] == Approx((u + 1) * g / (1 + std::exp(-1.702 * g))).epsilon(1e-12));
    }
    CHECK((above > 0 && below > 0));
    CHECK(limited.steps().back().options ==
          StepOptions{{"activation", "quick-gelu"}, {"limit", "2.5"}, {"up_shift", "1"}});
    CHECK_THROWS_WITH(gated_feed_forward(x, weights, {.limit = 0}),
                      "gated_feed_forward: the limit is 0, expected a number above 0");
}
