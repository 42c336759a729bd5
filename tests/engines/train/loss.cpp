#include "attn/engines/train/loss.hpp"

#include "generators.hpp"
#include "step_tables.hpp"
#include "test.hpp"

#include "attn/formula/gradient.hpp"
#include "attn/formula/verify.hpp"

#include <cmath>

using namespace attn;
using namespace attn::formula;
using namespace attn::train;
using namespace attn::test;

TEST_CASE("binary cross-entropy is the mean of minus the logarithm of each label's probability", "[train][loss]")
{
    const Vector logits{0.5, -2, 3};
    const auto p = [](double z) { return 1 / (1 + std::exp(-z)); };
    const double expected = -(std::log(p(0.5)) + std::log(1 - p(-2)) + std::log(p(3))) / 3;
    CHECK(binary_cross_entropy(logits, {1, 0, 1}) == Approx(expected).epsilon(1e-14));
    CHECK(binary_cross_entropy({1000, -1000}, {0, 1}) == 1000); // and does not overflow
    CHECK(binary_cross_entropy({1000, -1000}, {1, 0}) == 0);
    CHECK_THROWS_WITH(binary_cross_entropy(logits, {1, 2, 1}), "binary_cross_entropy: a label is 2, expected 0 or 1");
    CHECK_THROWS_WITH(binary_cross_entropy(logits, {1, 0}), ContainsSubstring("must agree in b"));
}

TEST_CASE("cross-entropy leaves out ignored targets, and smooths labels as PyTorch does", "[train][loss]")
{
    // F.cross_entropy(torch.tensor([[1., 2., -1.], [0.5, 0., 0.25], [3., 1., 0.]]).double(), torch.tensor([1, -100, 0]),
    //                 label_smoothing=...)
    const Matrix logits{{1, 2, -1}, {0.5, 0, 0.25}, {3, 1, 0}};
    const Integers targets{1, ignored_target, 0};
    CHECK(cross_entropy(logits, targets) == Approx(0.259429118162236).epsilon(1e-14));
    CHECK(cross_entropy(logits, targets, {0.1}) == Approx(0.40942911816223604).epsilon(1e-14));
    CHECK(cross_entropy(Matrix{{1e4, 0}}, {1}) == 1e4); // and does not overflow
    CHECK_THROWS_WITH(cross_entropy(logits, {1, 3, 0}), ContainsSubstring("there is no class 3 among 3"));
    CHECK_THROWS_WITH(cross_entropy(logits, {-100, -100, -100}), ContainsSubstring("all targets are ignored"));
    CHECK_THROWS_WITH(cross_entropy(logits, {1, 2}), ContainsSubstring("must agree in n"));
}

TEST_CASE("the steps of both losses are those of their doc comments, and follow from their formulas",
          "[train][loss][steps]")
{
    Recorder of_labels;
    binary_cross_entropy({0.5, -2, 3}, {1, 0, 1}, Trace(of_labels));
    CHECK(different_rows(promised("engines/train/loss.hpp", "binary_cross_entropy"), of_labels) == "");
    Recorder of_classes;
    Numbers numbers(1);
    cross_entropy(numbers.matrix(3, 4), {2, ignored_target, 0}, {0.25}, Trace(of_classes));
    CHECK(different_rows(with_numbers(promised("engines/train/loss.hpp", "cross_entropy"), {{"V", "4"}, {"E", "0.25"}}),
                         of_classes) == "");
    Recorder of_batch;
    cross_entropy(numbers.tensor3(2, 3, 4), IntegerMatrix{{0, 3, 1}, {2, -100, -100}}, {}, Trace(of_batch));
    for (const Recorder* recorder : {&of_labels, &of_classes, &of_batch}) {
        CHECK(verify(recorder->recording()).passed());
        const Recording back = gradients(recorder->recording(), {.of = "loss"});
        CHECK(verify(back).passed());
        for (const GradientCheck& check : check_gradients(back))
            CHECK(check.agrees());
    }
}

TEST_CASE("the gradient of cross-entropy is softmax less the target, over the number of targets", "[train][loss]")
{
    Numbers numbers(2);
    const Matrix logits = numbers.matrix(3, 4);
    const Integers targets{2, ignored_target, 0};
    Recorder recorder;
    cross_entropy(logits, targets, {}, Trace(recorder));
    const Recording back = gradients(recorder.recording(), {.of = "loss"});
    const Array& grad = std::ranges::find(back.steps, "grad.logits", &Step::path)->value;
    for (std::size_t i = 0; i < 3; ++i) {
        double sum = 0;
        for (std::size_t j = 0; j < 4; ++j)
            sum += std::exp(logits(i, j));
        for (std::size_t j = 0; j < 4; ++j) {
            const double wanted = targets(i) == static_cast<std::int64_t>(j) ? 1 : 0;
            const double expected = i == 1 ? 0 : (std::exp(logits(i, j)) / sum - wanted) / 2;
            CHECK(std::abs(grad.values[i * 4 + j] - expected) < 1e-15);
        }
    }
}
