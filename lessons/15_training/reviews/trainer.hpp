#pragma once

#include "classifier.hpp"

#include "attn/engines/train/adam.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace attn::train {

/// Texts with what they are.
struct Reviews {
    IntegerMatrix ids; ///< (reviews, n)
    Integers labels;   ///< (reviews): 1 favourable, 0 not
};

/// Weights as Keras draws them: the embedding uniform in ±0.05, maps uniform in ±sqrt(6 / (d_in + d_out)) (Glorot and
/// Bengio 2010), the bias zero.
ReviewClassifierWeights initial_review_classifier(std::size_t vocabulary, std::size_t d_model, std::uint64_t seed);

/// Options of ReviewTrainer.
struct ReviewTrainingOptions {
    ReviewClassifierOptions model = {};
    double dropout = 0.5;
    double rate = 1e-3;
    AdamOptions adam = keras_adam; ///< without weight decay
    std::uint64_t seed = 1;        ///< of the dropout masks
    std::size_t threads = 1;
};

/// What some texts gave.
struct ReviewResult {
    double loss = 0;       ///< binary cross-entropy, the mean
    std::size_t right = 0; ///< how many logits have the sign of their label
};

/// Trains a review_classifier() in float32.
///
/// The way back is written by hand; tests hold it against formula::gradients() of the traced model. Texts are computed in blocks
/// of four, and what the blocks give is added in their order, so the numbers do not depend on how many threads share
/// the blocks. They do depend on the BLAS library and on what it does on the processor.
///
/// The output sees the mean over all words of a text. So a head's weights count only by their mean over all queries, one
/// weight per key, and neither values nor contexts have to be computed for each word.
class ReviewTrainer {
public:
    /// @throws Error where the weights do not fit each other, the heads or this trainer
    ReviewTrainer(const ReviewClassifierWeights& initial, const ReviewTrainingOptions& options);
    ~ReviewTrainer();

    /// Takes a step on some of the reviews.
    /// @param rows  which ones
    /// @return loss and how many were right, before the step
    /// @throws Error where an id is no row of the embedding, a label is neither 0 nor 1, or the loss is infinite or NaN
    ReviewResult step(const Reviews& reviews, std::span<const std::size_t> rows);

    /// The gradient of the mean loss with respect to every weight, without a step.
    /// @param dropout_mask  as review_classifier()
    ReviewClassifierWeights gradient(const Reviews& reviews, std::span<const std::size_t> rows,
                                     const std::optional<Matrix>& dropout_mask);

    /// Loss and how many are right of all reviews, without dropout.
    /// @param with_dropout  a mistake that lesson 15 shows: features are dropped here, too
    ReviewResult evaluate(const Reviews& reviews, bool with_dropout = false);

    /// The weights after the steps so far.
    /// @throws Error where a weight or one of Adam's means is infinite or NaN
    ReviewClassifierWeights weights();

    /// Weights and Adam's means after the steps so far, for a checkpoint.
    /// @throws Error as weights()
    const AdamState& state();
    /// Goes on from a checkpoint.
    /// @throws Error where it has another number of weights
    void restore(AdamState state);

private:
    struct Network;
    std::unique_ptr<Network> network_;
};

} // namespace attn::train
