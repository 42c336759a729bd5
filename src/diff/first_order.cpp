// What a mistake would do to the result of a whole program, from how the result depends on each step.

#include "first_order.hpp"

#include "attn/core/error.hpp"
#include "attn/formula/gradient.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

namespace attn::diff {

FirstOrder::FirstOrder(const Wrong& wrong, Diff::World& world) : wrong_(wrong), world_(world)
{
    constexpr std::size_t random_directions = 2; // each takes about as long as a mistake that is made
    if (wrong.found.shape != wrong.right.shape)
        throw Error("there is no direction from one shape to another");
    Array direction = wrong.right;
    for (std::size_t i = 0; i < direction.size(); ++i) {
        const double off = wrong.found.values[i] - wrong.right.values[i];
        direction.values[i] = std::isfinite(off) ? off : 0;
    }
    length_ = std::sqrt(std::transform_reduce(direction.values.begin(), direction.values.end(), 0.0, std::plus<>(),
                                              [](double x) { return x * x; }));
    for (double& number : direction.values)
        number /= length_;
    walk_back(direction);
    for (std::size_t i = 1; i <= random_directions; ++i) {
        Array across = direction; // at right angles to it
        for (std::size_t j = 0; j < across.size(); ++j)
            across.values[j] = formula::rounding_sign(i, wrong.step, j);
        const double along =
            std::inner_product(across.values.begin(), across.values.end(), direction.values.begin(), 0.0);
        for (std::size_t j = 0; j < across.size(); ++j)
            across.values[j] -= along * direction.values[j];
        walk_back(across);
    }
    for (std::size_t step = 0; step < world.reference.size(); ++step)
        if (step == wrong.step || wrong.before.contains(step))
            for (const std::size_t operand : world.operands(step))
                users_[operand].push_back(step);
}

void FirstOrder::walk_back(const Array& direction)
{
    const std::string of = world_.reference[wrong_.step].path;
    Recording backward = formula::gradients(world_.recording, {.of = of, .seed = direction, .inputs = false});
    std::map<std::size_t, Array> found;
    for (Step& step : backward.steps)
        if (step.path.starts_with(formula::gradient_scope))
            if (const auto number =
                    world_.names.find(std::string_view(step.path).substr(formula::gradient_scope.size())))
                found.emplace(*number, std::move(step.value));
    gradients_.push_back(std::move(found));
}

double FirstOrder::unlikeness(const Edits& edits)
{
    Effect whole(gradients_.size());
    for (const auto& [step, formula] : edits) {
        const Effect& one = effect_of(step, formula);
        for (std::size_t i = 0; i < whole.size(); ++i)
            whole[i] += one[i];
    }
    double across = 0; // squared: what is seen in a random direction is as large as all of it, in the mean
    for (std::size_t i = 1; i < whole.size(); ++i)
        across += whole[i] * whole[i] / static_cast<double>(whole.size() - 1);
    const double along = whole.front();
    const double unlikeness = across / (across + along * along) + std::abs(std::log10(along / length_)) / 4;
    return along > 0 && std::isfinite(unlikeness) ? unlikeness : unlikely;
}

const FirstOrder::Effect& FirstOrder::effect_of(std::size_t step, const std::string& formula)
{
    const auto [found, is_new] = effects_.try_emplace({step, formula}, Effect(gradients_.size()));
    if (is_new)
        try {
            const Diff::World::ArrayOf plain = [this](std::size_t i) -> const Array& { return world_.plain(i); };
            add_change(step, world_.evaluate_step(step, formula, plain, &wrong_.found, false).value, found->second);
        } catch (const formula::FormulaError&) { // it can't be made there
        }
    return found->second;
}

/// The change of a step without a gradient, such as a mask, or one that is not finite, shows in what uses it.
void FirstOrder::add_change(std::size_t step, const Array& changed, Effect& effect, std::size_t depth)
{
    constexpr std::size_t deepest = 2;
    const Array& right = world_.plain(step);
    const auto& along = gradients_.front();
    const auto change = [](double to, double from) { return to == from ? 0 : to - from; }; // of what is masked, too
    const bool has_change = changed.shape == right.shape && along.contains(step);
    if (has_change && std::ranges::equal(changed.values, right.values,
                                         [&](double to, double from) { return std::isfinite(change(to, from)); })) {
        for (std::size_t i = 0; i < effect.size(); ++i) {
            const std::vector<double>& gradient = gradients_[i].at(step).values;
            for (std::size_t j = 0; j < right.size(); ++j)
                effect[i] += gradient[j] * change(changed.values[j], right.values[j]);
        }
        return;
    }
    for (const std::size_t user : users_[step])
        if (depth < deepest)
            try {
                const Diff::World::ArrayOf with_change = [&](std::size_t i) -> const Array& {
                    return i == step ? changed : world_.plain(i);
                };
                add_change(
                    user, world_.evaluate_step(user, world_.reference[user].formula, with_change, nullptr, false).value,
                    effect, depth + 1);
            } catch (const formula::FormulaError&) { // as that of one that has another shape
            }
}

} // namespace attn::diff
