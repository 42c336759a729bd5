// Gradients beside central differences.

#include "attn/formula/gradient.hpp"

#include "attn/core/error.hpp"
#include "attn/formula/recompute.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>

namespace attn::formula {
namespace {

/// What a trace gives for another input.
class Recomputed {
public:
    explicit Recomputed(const Recording& recording) : steps_(recording.steps), again_(recording)
    {
        const auto first =
            std::ranges::find_if(steps_, [](const Step& step) { return step.path.starts_with(gradient_scope); });
        if (first == steps_.end())
            throw Error("there are no gradients");
        const auto of = again_.names().find(std::string_view(first->path).substr(gradient_scope.size()));
        if (!of)
            throw Error(first->path, " is the gradient of no step");
        seed_ = &first->value;
        of_ = *of;
    }

    std::size_t of() const { return of_; }

    /// The gradient of a step; nullptr where it has none.
    const Array* gradient(std::size_t step) const
    {
        const auto found = again_.names().find(std::string(gradient_scope).append(steps_[step].path));
        return found ? &steps_[*found].value : nullptr;
    }

    /// How large the terms of that sum are: what is lost of it by rounding depends on them.
    double size() const
    {
        double size = 0;
        for (std::size_t i = 0; i < seed_->size(); ++i)
            if (seed_->values[i] != 0)
                size += std::abs(seed_->values[i] * steps_[of_].value.values[i]);
        return size;
    }

    /// The sum of all numbers that the gradients are of, each times its seed, with one input replaced.
    double sum_with(std::size_t input, Array value) const
    {
        const Recomputation::Arrays changed = again_.with({.values = {{input, std::move(value)}}}, of_);
        const auto found = changed.find(of_);
        const Array& result = found == changed.end() ? steps_[of_].value : found->second;
        double sum = 0;
        for (std::size_t i = 0; i < result.size(); ++i)
            if (seed_->values[i] != 0)
                sum += seed_->values[i] * result.values[i];
        return sum;
    }

private:
    const std::vector<Step>& steps_;
    Recomputation again_;
    const Array* seed_ = nullptr;
    std::size_t of_ = 0;
};

struct Derivative {
    double value = std::numeric_limits<double>::quiet_NaN();
    double error = std::numeric_limits<double>::infinity();
};

/// Ridders' method: differences with steps that shrink, extrapolated to zero, until they get worse by rounding.
/// @param difference  the central difference with a step
/// @param lost        by rounding of what it is the difference of
template <class Difference>
Derivative extrapolated(double step, double lost, const Difference& difference)
{
    constexpr std::size_t most = 8;
    constexpr double shrink = 2, much_worse = 2;
    std::array<std::array<double, most>, most> table{};
    Derivative best;
    for (std::size_t i = 0; i < most; ++i, step /= shrink) {
        table[i][0] = difference(step);
        double factor = shrink * shrink;
        for (std::size_t j = 1; j <= i; ++j, factor *= shrink * shrink) {
            table[i][j] = (table[i][j - 1] * factor - table[i - 1][j - 1]) / (factor - 1);
            const double change =
                std::max(std::abs(table[i][j] - table[i][j - 1]), std::abs(table[i][j] - table[i - 1][j - 1]));
            const double error = change + lost / step;
            if (error <= best.error)
                best = {table[i][j], error};
        }
        if (i > 0 && std::abs(table[i][i] - table[i - 1][i - 1]) >= much_worse * best.error)
            break;
    }
    return best;
}

/// The same, from smaller and smaller steps where a larger one crosses a corner.
template <class Difference>
Derivative settled(double step, double lost, const Difference& difference)
{
    constexpr double enough = 1e-9, smaller = 32;
    Derivative best;
    for (std::size_t attempt = 0; attempt < 4 && !(best.error <= enough * std::abs(best.value)); ++attempt) {
        const Derivative found = extrapolated(step, lost, difference);
        if (found.error < best.error)
            best = found;
        step /= smaller;
    }
    return best;
}

/// Beside numbers of about that size a step is neither lost in rounding nor large.
double first_step(const Array& input)
{
    double largest = 0;
    for (const double value : input.values)
        if (std::isfinite(value))
            largest = std::max(largest, std::abs(value));
    return 0.02 * (largest > 0 ? largest : 1);
}

} // namespace

bool GradientCheck::agrees() const
{
    constexpr double safety = 20, most = 1e-4, roundings = 1e-10;
    const double size = std::max(std::abs(by_gradient), std::abs(by_differences));
    return error <= most * std::max(size, 1.0) &&
           std::abs(by_gradient - by_differences) <= safety * error + roundings * size;
}

std::vector<GradientCheck> check_gradients(const Recording& recording, unsigned seed)
{
    Recomputed recomputed(recording);
    std::mt19937 random(seed);
    std::vector<GradientCheck> checks;
    for (std::size_t input = 0; input < recomputed.of(); ++input) {
        const Step& step = recording.steps[input];
        const Array* gradient = recomputed.gradient(input);
        if (!step.formula.empty() || gradient == nullptr)
            continue;
        GradientCheck check{step.path};
        std::vector<double> direction;
        for (std::size_t i = 0; i < step.value.size(); ++i) {
            direction.push_back(static_cast<double>(random() % 2001) / 1000 - 1);
            check.by_gradient += gradient->values[i] * direction.back();
        }
        const auto moved = [&](double by) {
            Array value = step.value;
            for (std::size_t i = 0; i < value.size(); ++i)
                value.values[i] += by * direction[i];
            return recomputed.sum_with(input, std::move(value));
        };
        const Derivative found = settled(first_step(step.value), double_roundoff * recomputed.size(),
                                         [&](double by) { return (moved(by) - moved(-by)) / (2 * by); });
        check.by_differences = found.value;
        check.error = found.error;
        checks.push_back(std::move(check));
    }
    return checks;
}

} // namespace attn::formula
