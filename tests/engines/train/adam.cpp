#include "attn/engines/train/adam.hpp"

#include "generators.hpp"
#include "test.hpp"

#include <cmath>

using namespace attn;
using namespace attn::train;
using namespace attn::test;

TEST_CASE("Adam's first step is as long as the rate, whatever the gradient", "[train][adam]")
{
    for (const float gradient : {0.001F, 1.0F, -50.0F}) {
        AdamState state(std::vector<float>{1});
        const AdamOptions options;
        adam_step(state, 0, std::vector<float>{gradient}, options, adam_factors(options, 0.25, 1));
        CHECK(state.weights[0] == Approx(gradient > 0 ? 0.75 : 1.25).epsilon(1e-4));
    }
}

TEST_CASE("three steps of Adam and AdamW are PyTorch's, and with epsilon before the correction Keras's",
          "[train][adam]")
{
    // w = torch.tensor([0.5, -1.0]); AdamW(rate 0.1, betas (0.9, 0.98), eps 0.01, decay) on w.grad = (1, 2), (-3, 0.5), (0.25, 0)
    const auto after = [](const AdamOptions& options) {
        AdamState state(std::vector<float>{0.5F, -1});
        const float gradients[3][2] = {{1, 2}, {-3, 0.5F}, {0.25F, 0}};
        for (std::uint64_t t = 1; t <= 3; ++t)
            adam_step(state, 0, gradients[t - 1], options, adam_factors(options, 0.1, t));
        return state.weights;
    };
    const auto is = [](const std::vector<float>& found, double first, double second) {
        return std::abs(found[0] - first) < 1e-6 && std::abs(found[1] - second) < 1e-6;
    };
    CHECK(is(after({.beta2 = 0.98, .epsilon = 0.01}), 0.4828985981854187, -1.246592905571264));
    CHECK(is(after({.beta2 = 0.98, .epsilon = 0.01, .weight_decay = 0.5}), 0.4187889609082572, -1.0901242568621226));
    // keras.optimizers.Adam: lr_t = lr sqrt(1 - beta2^t) / (1 - beta1^t); w -= lr_t m / (sqrt(v) + epsilon), in NumPy
    CHECK(is(after({.beta2 = 0.98, .epsilon = 0.01, .epsilon_place = EpsilonPlace::before_correction}),
             0.48710383922562317, -1.2398099636317865));
}

TEST_CASE("a table's rows, stepped when they are used, are those stepped each time, bit for bit", "[train][adam]")
{
    constexpr std::size_t rows = 6, width = 5, steps = 400;
    Numbers numbers(1);
    std::vector<float> initial(3 + rows * width);
    for (float& weight : initial)
        weight = static_cast<float>(numbers.number());
    for (const AdamOptions& options : {keras_adam, AdamOptions{}}) {
        AdamState each(initial), used(initial);
        AdamRows table(3, rows, width);
        for (std::size_t t = 1; t <= steps; ++t) {
            const AdamFactors factors = adam_factors(options, 1e-3 * static_cast<double>(1 + t % 3), t);
            table.begin_step(factors);
            for (std::size_t row = 0; row < rows; ++row) {
                std::vector<float> gradient(width, 0.0F);
                const bool is_used = row < 2 ? t % (7 + 90 * row) == 0 : row == 2 && t == 5; // the others never
                for (float& number : gradient)
                    number = is_used ? static_cast<float>(numbers.number()) : 0;
                adam_step(each, 3 + row * width, gradient, options, factors);
                if (is_used)
                    table.step(used, row, gradient, options);
            }
        }
        CHECK_FALSE(used.first == each.first); // before the rest is made up for
        table.settle_all(used, options);
        CHECK(used.weights == each.weights);
        CHECK(used.first == each.first);
        CHECK(used.second == each.second);
    }
}

TEST_CASE("the paper's rate grows for 4000 steps, and falls with the root of the steps", "[train][adam]")
{
    CHECK(paper_rate(512, 1) == Approx(1.746928107421711e-07).epsilon(1e-12)); // 512 ** -0.5 * 4000 ** -1.5
    CHECK(paper_rate(512, 4000) == Approx(6.987712429686844e-04).epsilon(1e-12));
    CHECK(paper_rate(512, 16000) == Approx(paper_rate(512, 4000) / 2).epsilon(1e-12));
}

TEST_CASE("warm-up and cosine are those of train.py", "[train][adam]")
{
    const WarmUpCosine rate;
    CHECK(rate(1) == Approx(5e-5).epsilon(1e-12)); // 5e-3 * min(1, 1 / 100) * 0.5 * (1 + cos(0))
    CHECK(rate(100) == Approx(5e-3 * 0.5 * (1 + std::cos(std::acos(-1.0) * 99 / 2000))).epsilon(1e-12));
    CHECK(rate(1001) == Approx(2.5e-3).epsilon(1e-12));
}
