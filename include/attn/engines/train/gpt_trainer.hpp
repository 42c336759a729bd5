#pragma once

#include "attn/engines/train/adam.hpp"
#include "attn/engines/train/batches.hpp"
#include "attn/engines/train/loss.hpp"
#include "attn/reference/models/gpt.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace attn::train {

/// Options of BasicGptTrainer.
struct GptTrainingOptions {
    GptOptions model = {};
    bool has_positions = true; ///< false embeds words without their positions, whose table is not trained
    double label_smoothing = 0;
    RowLoss loss = {}; ///< trained on in place of cross-entropy
    AdamOptions adam = {.beta2 = 0.98, .weight_decay = 0.01};
    std::function<double(std::uint64_t)> rate = WarmUpCosine(); ///< of each step, counted from 1
    std::size_t threads = 1;
};

/// Trains a gpt(): the tied kind, with biases everywhere and ReLU, as lessons/small_model has it. In float32 for speed; in
/// double to tell what rounding does to a training.
///
/// The way back is written by hand; tests hold it against formula::gradients() of the traced model. Nothing is computed for
/// padding, since no text has any here: the texts of a block lie one after another. Texts are computed in blocks of six,
/// and what the blocks give is added in their order, so the numbers do not depend on how many threads share the
/// blocks. They do depend on the BLAS library and on what it does on the processor.
/// @tparam Number  float or double
template <class Number>
class BasicGptTrainer {
public:
    /// @throws Error where the weights do not fit this trainer
    BasicGptTrainer(const GptWeights& initial, const GptTrainingOptions& options);
    ~BasicGptTrainer();

    /// Takes a step on some texts: clears the gradient, computes it on their examples_of(), and updates the weights by it.
    /// @return the loss before the step, the mean over all predicted ids
    /// @throws Error as backward()
    double step(std::span<const Text> texts);

    /// @name The parts of a step
    /// @{
    void clear_gradient();
    /// Adds the gradient of the mean loss.
    /// @return the loss, the mean over all predicted ids
    /// @throws Error where an example predicts nothing, or more ids than there are positions, an id is no row of the embedding,
    ///               or the loss is infinite or NaN
    double backward(std::span<const TextExample> examples);
    /// Takes a step of Adam by the gradient.
    void update();
    /// @}

    /// The gradient of the mean loss with respect to every weight, without a step.
    GptWeights gradient(std::span<const Text> texts);

    /// The mean cross-entropy, without label smoothing.
    /// @throws Error as backward()
    double evaluate(std::span<const Text> texts);

    /// The weights after the steps so far.
    /// @throws Error where a weight or one of Adam's means is infinite or NaN
    GptWeights weights() const;

    /// Weights and Adam's means after the steps so far, for a checkpoint.
    /// @throws Error as weights()
    const BasicAdamState<Number>& state() const;
    /// Goes on from a checkpoint.
    /// @throws Error where it has another number of weights
    void restore(BasicAdamState<Number> state);

private:
    struct Network;
    std::unique_ptr<Network> network_;
};
using GptTrainer = BasicGptTrainer<float>;

extern template class BasicGptTrainer<float>;
extern template class BasicGptTrainer<double>;

} // namespace attn::train
