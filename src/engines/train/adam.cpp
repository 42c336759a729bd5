#include "attn/engines/train/adam.hpp"

#include "attn/core/vectorised.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace attn::train {
namespace {

template <class Number>
struct Constants {
    Constants(const AdamOptions& options, const AdamFactors& factors)
        : beta1(static_cast<Number>(options.beta1)),
          beta2(static_cast<Number>(options.beta2)),
          new1(static_cast<Number>(1 - options.beta1)),
          new2(static_cast<Number>(1 - options.beta2)),
          epsilon(static_cast<Number>(options.epsilon)),
          step(static_cast<Number>(factors.step)),
          scale(static_cast<Number>(factors.scale)),
          shrink(static_cast<Number>(factors.shrink))
    {
    }

    Number beta1, beta2, new1, new2, epsilon, step, scale, shrink;
};

/// A number, or zero where it is smaller than the smallest normal one.
template <class Number>
Number normal(Number number)
{
    return std::abs(number) < std::numeric_limits<Number>::min() ? 0 : number;
}

template <class Number>
ATTN_VECTORISED void move(Number* __restrict weights, Number* __restrict first, Number* __restrict second,
                          const Number* __restrict gradient, std::size_t count, const Constants<Number>& of)
{
    for (std::size_t i = 0; i < count; ++i) {
        first[i] = normal(of.beta1 * first[i] + of.new1 * gradient[i]);
        second[i] = normal(of.beta2 * second[i] + of.new2 * gradient[i] * gradient[i]);
        weights[i] = of.shrink * weights[i] - of.step * first[i] / (of.scale * std::sqrt(second[i]) + of.epsilon);
    }
}

/// The same with a gradient of zero.
ATTN_VECTORISED void coast(float* __restrict weights, float* __restrict first, float* __restrict second,
                           std::size_t count, const Constants<float>& of)
{
    for (std::size_t i = 0; i < count; ++i) {
        first[i] = normal(of.beta1 * first[i]);
        second[i] = normal(of.beta2 * second[i]);
        weights[i] = of.shrink * weights[i] - of.step * first[i] / (of.scale * std::sqrt(second[i]) + of.epsilon);
    }
}

bool is_zero(const float* numbers, std::size_t count)
{
    return std::all_of(numbers, numbers + count, [](float number) { return number == 0; });
}

} // namespace

AdamFactors adam_factors(const AdamOptions& options, double rate, std::uint64_t t)
{
    const double steps = static_cast<double>(t);
    const double correction1 = 1 - std::pow(options.beta1, steps), correction2 = 1 - std::pow(options.beta2, steps);
    const double shrink = 1 - rate * options.weight_decay;
    if (options.epsilon_place == EpsilonPlace::before_correction)
        return {rate * std::sqrt(correction2) / correction1, 1, shrink};
    return {rate / correction1, 1 / std::sqrt(correction2), shrink};
}

double paper_rate(std::size_t d_model, std::uint64_t t, std::uint64_t warm_up)
{
    const double steps = static_cast<double>(t);
    return std::min(1 / std::sqrt(steps), steps * std::pow(static_cast<double>(warm_up), -1.5)) /
           std::sqrt(static_cast<double>(d_model));
}

double WarmUpCosine::operator()(std::uint64_t t) const
{
    const double grown = warm_up == 0 ? 1 : std::min(1.0, static_cast<double>(t) / static_cast<double>(warm_up));
    const double share = static_cast<double>(t - 1) / static_cast<double>(steps);
    return rate * grown * 0.5 * (1 + std::cos(std::numbers::pi * share));
}

template <class Number>
void adam_step(BasicAdamState<Number>& state, std::size_t begin, std::span<const std::type_identity_t<Number>> gradient,
               const AdamOptions& options, const AdamFactors& factors)
{
    move(state.weights.data() + begin, state.first.data() + begin, state.second.data() + begin, gradient.data(),
         gradient.size(), Constants<Number>(options, factors));
}

template void adam_step(AdamState&, std::size_t, std::span<const float>, const AdamOptions&, const AdamFactors&);
template void adam_step(BasicAdamState<double>&, std::size_t, std::span<const double>, const AdamOptions&,
                        const AdamFactors&);

AdamRows::AdamRows(std::size_t begin, std::size_t rows, std::size_t width)
    : begin_(begin), width_(width), settled_(rows, 0)
{
}

void AdamRows::settle(AdamState& state, std::size_t row, const AdamOptions& options, std::size_t steps)
{
    const std::size_t at = begin_ + row * width_;
    float *weights = state.weights.data() + at, *first = state.first.data() + at, *second = state.second.data() + at;
    if (settled_[row] < steps && is_zero(first, width_) && is_zero(second, width_))
        settled_[row] = steps;
    for (; settled_[row] < steps; ++settled_[row])
        coast(weights, first, second, width_, Constants<float>(options, factors_[settled_[row]]));
}

void AdamRows::step(AdamState& state, std::size_t row, std::span<const float> gradient, const AdamOptions& options)
{
    settle(state, row, options, steps() - 1);
    adam_step(state, begin_ + row * width_, gradient, options, factors_.back());
    settled_[row] = steps();
}

void AdamRows::settle_all(AdamState& state, const AdamOptions& options)
{
    for (std::size_t row = 0; row < settled_.size(); ++row)
        settle(state, row, options, steps());
}

} // namespace attn::train
