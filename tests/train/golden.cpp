// Training the small model as lessons/small_model/train.py does with PyTorch.

#include "golden.hpp"
#include "test.hpp"

#include "attn/train/gpt_trainer.hpp"
#include "lessons/small_model.hpp"

#include <cmath>

using namespace attn;

TEST_CASE("each loss of the first 50 steps of the small model is PyTorch's", "[train][golden]")
{
    const SmallModel model = small_model(Training::before);
    const SmallStories stories = small_stories();
    CHECK(stories.training.size() == 20000);
    CHECK(stories.held_out.size() == 1000);
    const Golden golden = read_golden("training");
    REQUIRE(golden.size() == 1);
    const std::vector<double>& losses = golden[0].second.values;
    REQUIRE(losses.size() == 50);
    GptTrainer trainer(model.weights, {.model = model.options, .threads = 2});
    for (std::size_t step = 0; step < losses.size(); ++step) {
        CAPTURE(step);
        const double loss = trainer.step(std::span(stories.training).subspan(step * 48, 48));
        // Roundings grow with every step: PyTorch's own losses in float32 and float64 are 1.3e-5 apart at the 50th.
        CHECK(std::abs(loss - losses[step]) < (step < 40 ? 1e-5 : 2e-4));
    }
}
