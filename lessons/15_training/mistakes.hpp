#pragma once

#include "attn/engines/train/gpt_trainer.hpp"
#include "attn/engines/train/kernels.hpp"

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

/// Mistakes that programs make that train such models, planted in the small model's training.
namespace attn {

/// Each word is to predict itself.
inline std::vector<train::TextExample>
examples_not_shifted(std::span<const train::Text> texts)
{
    std::vector<train::TextExample> examples = train::examples_of(texts);
    for (train::TextExample& example : examples)
        example.targets = example.ids;
    return examples;
}

/// Texts are padded to the longest by the id 0, which is a target, too.
inline std::vector<train::TextExample>
examples_with_padding(std::span<const train::Text> texts)
{
    std::vector<train::TextExample> examples = train::examples_of(texts);
    std::size_t longest = 0;
    for (const train::TextExample& example : examples)
        longest = std::max(longest, example.ids.size());
    for (train::TextExample& example : examples) {
        example.ids.resize(longest, 0);
        example.targets.resize(longest, 0);
    }
    return examples;
}

/// The loss, which takes logits, gets probabilities.
inline double loss_of_probabilities(std::span<double> logits, std::size_t target)
{
    train::softmax_row(logits.data(), logits.size(), logits.size());
    std::vector<double> grad(logits.begin(), logits.end());
    const double loss = train::cross_entropy_row(grad.data(), grad.size(), target, 0, 1);
    train::softmax_backward_row(logits.data(), grad.data(), grad.size(), 1);
    return loss;
}

/// How a training is wrong, by the flag --mistake; the first one is right.
struct TrainingMistake {
    std::string_view name = "";
    std::vector<train::TextExample> (*examples)(std::span<const train::Text>) =
        train::examples_of;
    double (*loss)(std::span<double>, std::size_t) = nullptr; ///< cross-entropy
    bool clears_gradient = true; ///< false adds each step's gradient to those before
    bool has_positions = true;   ///< false embeds words without their positions

    train::GptTrainingOptions in(train::GptTrainingOptions options) const
    {
        options.loss = loss;
        options.has_positions = has_positions;
        return options;
    }

    /// @return the loss before the step
    double step(train::GptTrainer& trainer, std::span<const train::Text> texts) const
    {
        if (clears_gradient)
            trainer.clear_gradient();
        const double found = trainer.backward(examples(texts));
        trainer.update();
        return found;
    }
};

inline constexpr TrainingMistake training_mistakes[] = {
    {},
    {.name = "targets-not-shifted", .examples = examples_not_shifted},
    {.name = "padding-in-loss", .examples = examples_with_padding},
    {.name = "softmax-twice", .loss = loss_of_probabilities},
    {.name = "gradients-not-cleared", .clears_gradient = false},
    {.name = "positions-forgotten", .has_positions = false}};

} // namespace attn
