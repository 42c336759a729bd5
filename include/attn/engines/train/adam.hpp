#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

namespace attn::train {

/// Where Adam's epsilon stands. The paper gives both forms (Kingma and Ba 2015, algorithm 1 and the end of section 2).
enum class EpsilonPlace {
    after_correction, ///< rate * m' / (sqrt(v') + epsilon), m' and v' corrected for their bias: PyTorch, the algorithm
    before_correction ///< rate' * m / (sqrt(v) + epsilon), the rate corrected instead: Keras, "epsilon hat" in the paper
};

/// Options of Adam.
struct AdamOptions {
    double beta1 = 0.9;
    double beta2 = 0.999;
    double epsilon = 1e-8;
    double weight_decay = 0; ///< decoupled (AdamW): weights shrink by rate * weight_decay in each step
    EpsilonPlace epsilon_place = EpsilonPlace::after_correction;
};

/// As keras.optimizers.Adam has them, but for the rate, which is 0.001 there.
inline constexpr AdamOptions keras_adam{.epsilon = 1e-7, .epsilon_place = EpsilonPlace::before_correction};

/// The factors of one step of Adam: w = shrink * w - step * m / (scale * sqrt(v) + epsilon).
struct AdamFactors {
    double step, scale, shrink;
};

/// The factors of step t at a learning rate.
/// @param t  counted from 1
AdamFactors adam_factors(const AdamOptions& options, double rate, std::uint64_t t);

/// The learning rate of Vaswani et al. 2017, equation 3: d_model^-0.5 min(t^-0.5, t warm_up^-1.5).
/// @param t        counted from 1
/// @param warm_up  steps in which the rate grows
double paper_rate(std::size_t d_model, std::uint64_t t, std::uint64_t warm_up = 4000);

/// A rate that grows evenly for some steps while half a cosine takes it down to zero over all steps, as
/// lessons/small_model/train.py has it.
struct WarmUpCosine {
    double rate = 5e-3;
    std::uint64_t warm_up = 100;
    std::uint64_t steps = 2000;

    /// @param t  counted from 1
    double operator()(std::uint64_t t) const;
};

/// Weights with what Adam remembers of each: the means of its gradients and of their squares.
///
/// A mean that is smaller than the smallest normal number of its type is set to zero. It can't move a weight any more,
/// and processors compute slowly with such numbers.
/// @tparam Number  float or double
template <class Number>
struct BasicAdamState {
    explicit BasicAdamState(std::vector<Number> initial_weights)
        : weights(std::move(initial_weights)), first(weights.size()), second(weights.size())
    {
    }

    std::vector<Number> weights;
    std::vector<Number> first;  ///< m
    std::vector<Number> second; ///< v
    std::uint64_t steps = 0;    ///< how many were taken
};
using AdamState = BasicAdamState<float>;

/// One step of Adam on a range of the weights.
/// @param gradient  one number per weight of the range
/// @param factors   of the step; the caller counts steps
template <class Number>
void adam_step(BasicAdamState<Number>& state, std::size_t begin, std::span<const std::type_identity_t<Number>> gradient,
               const AdamOptions& options, const AdamFactors& factors);

/// Adam for the rows of a table of which each step uses a few, such as an embedding.
///
/// A row without a gradient still moves, by the gradients that Adam remembers. Here this is made up for when the row is
/// used again or asked for: the same operations in the same order, so that the numbers are the same to the last bit, but
/// while the row is in the processor's cache. A row that never had a gradient does not move at all, since all that Adam
/// remembers of it is zero. This needs a weight decay of zero.
class AdamRows {
public:
    /// @param begin  where the table begins in the state
    /// @param width  of a row
    AdamRows(std::size_t begin, std::size_t rows, std::size_t width);

    /// Says which factors the next step has. Then each row can be asked for, and stepped.
    void begin_step(const AdamFactors& factors) { factors_.push_back(factors); }

    /// Brings a row to where it is before the step that has begun, or without one after all steps.
    void settle(AdamState& state, std::size_t row, const AdamOptions& options, std::size_t steps);

    /// Takes the step that has begun with a row's gradient.
    void step(AdamState& state, std::size_t row, std::span<const float> gradient, const AdamOptions& options);

    /// Brings all rows to where they are after all steps.
    void settle_all(AdamState& state, const AdamOptions& options);

    std::size_t steps() const { return factors_.size(); }

private:
    std::size_t begin_, width_;
    std::vector<std::size_t> settled_; ///< how many steps each row has taken
    std::vector<AdamFactors> factors_; ///< of each step
};

} // namespace attn::train
