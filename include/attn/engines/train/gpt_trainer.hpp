#pragma once

#include "attn/engines/train/adam.hpp"
#include "attn/engines/train/batches.hpp"
#include "attn/reference/models/gpt.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace attn::train {

/// A mistake that programs that train such models have made; lesson 15 shows what becomes of the loss.
enum class GptMistake {
    none,
    targets_not_shifted,   ///< each token is to predict itself
    padding_in_loss,       ///< texts are padded to the longest of the batch by id 0, which is a target, too
    softmax_twice,         ///< the loss, which takes logits, gets probabilities
    gradients_not_cleared, ///< each step adds its gradient to those of the steps before
    positions_forgotten    ///< words are embedded without their positions
};

/// Options of BasicGptTrainer.
struct GptTrainingOptions {
    GptOptions model = {};
    double label_smoothing = 0;
    AdamOptions adam = {.beta2 = 0.98, .weight_decay = 0.01};
    std::function<double(std::uint64_t)> rate = WarmUpCosine(); ///< of each step, counted from 1
    std::size_t threads = 1;
    GptMistake mistake = GptMistake::none;
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

    /// Takes a step on some texts.
    /// @return the loss before the step, the mean over all predicted ids
    /// @throws Error where a text has less than two ids or more than there are positions, an id is no row of the embedding,
    ///               or the loss is infinite or NaN
    double step(std::span<const Text> texts);

    /// The gradient of the mean loss with respect to every weight, without a step.
    GptWeights gradient(std::span<const Text> texts);

    /// The mean loss, without label smoothing. Of mistakes only positions_forgotten has an effect: the model has been
    /// trained without them.
    /// @throws Error as step()
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
