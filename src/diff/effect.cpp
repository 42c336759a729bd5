// Whether a difference ends in a softmax, or in a product with zero.

#include "effect.hpp"

#include "attn/formula/expression.hpp"
#include "attn/formula/scope.hpp"
#include "softmax.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace attn::diff {
namespace {

// From the bias or the scores it is a few steps to the softmax: biased, scaled, masked.
constexpr std::size_t most_steps = 64;
// By how many roundings a weight can change when its row is shifted.
constexpr double roundings_of_weight = 32;

/// The scores around a step, of whatever stage: those that it is made of, and those that are made of it, up to the softmax.
std::vector<std::size_t> stages_around(Diff::World& world, std::size_t step)
{
    const auto is_other = [&](std::size_t i) {
        const Array& array = world.reference[i].value;
        return array.type != ElementType::real || array.shape != world.reference[step].value.shape;
    };
    const std::set<std::size_t> before = world.steps.all_before({step}, is_other);
    std::vector<std::size_t> stages(before.begin(), before.end());
    stages.push_back(step);
    for (std::size_t user = step + 1; user < world.reference.size() && !is_softmax(world.reference[user]); ++user) {
        const std::vector<std::size_t>& used = world.operands(user);
        if (!is_other(user) && std::ranges::find(used, stages.back()) != used.end())
            stages.push_back(user);
    }
    return stages;
}

/// True where the numbers that softmax uses are those of another stage of the scores, such as before the scale, or differ only
/// where they are masked: then it is not the step with a mistake, but another one of the same shape.
bool is_another_quantity(Diff::World& world, std::size_t step, const Array& found,
                         const Diff::World::Recomputed& expected)
{
    double dot = 0, square = 0;
    for (std::size_t i = 0; i < found.size(); ++i)
        if (const double right = expected.value.values[i]; std::isfinite(right)) {
            dot += found.values[i] * right;
            square += right * right;
        }
    const double factor = square > 0 ? dot / square : 1;
    // That many times an array is another one, where both are finite.
    const auto is_times = [&](const Array& array, const Array& other, bool can_be_masked) {
        for (std::size_t i = 0; i < array.size(); ++i) {
            const double wanted = factor * array.values[i], tolerance = expected.tolerance.at(i) * (1 + factor);
            const bool is_masked = can_be_masked && !std::isfinite(other.values[i]);
            if (std::isfinite(wanted) && !is_masked && !(times_off(other.values[i], wanted, tolerance) <= 1))
                return false;
        }
        return true;
    };
    return std::isfinite(factor) && factor > 0 && is_times(expected.value, found, false) &&
           std::ranges::any_of(stages_around(world, step), [&](std::size_t stage) {
               return is_times(world.reference[step].value, world.reference[stage].value, true);
           });
}

/// What follows from a step twice: from MINE's numbers, and from the expected ones.
class Effect {
public:
    Effect(Diff::World& world, std::size_t step, const Array& found, const Array& expected) : world_(world), step_(step)
    {
        different_.emplace(step, std::pair(found, expected));
    }

    bool ends_in_softmax()
    {
        return is_followed([&](std::size_t user) { return follow(user) || !is_softmax(world_.reference[user]); }) &&
               softmaxes_ > 0;
    }

    /// True where the first steps that use it are the same from both.
    bool ends_at_once()
    {
        return is_followed([&](std::size_t user) { return follow(user); });
    }

private:
    /// @param is_fine  false where a step that uses what differs shows an effect
    /// @return true where all that differs is used, and nothing shows an effect
    template <class IsFine>
    bool is_followed(const IsFine& is_fine)
    {
        std::size_t followed = 0;
        for (std::size_t user = step_ + 1; user < world_.reference.size(); ++user) {
            if (!uses_different(user))
                continue;
            if (++followed > most_steps || !is_fine(user))
                return false;
            softmaxes_ += is_softmax(world_.reference[user]) ? 1 : 0;
        }
        return std::ranges::all_of(different_, [&](const auto& one) { return used_.contains(one.first); });
    }

    bool uses_different(std::size_t user)
    {
        bool uses = false;
        for (const std::size_t operand : world_.operands(user))
            if (different_.contains(operand)) {
                used_.insert(operand);
                uses = true;
            }
        return uses;
    }

    /// @return whether the step is the same from both
    bool follow(std::size_t user)
    {
        Array from_found = computed(user, &std::pair<Array, Array>::first).value;
        Diff::World::Recomputed from_expected = computed(user, &std::pair<Array, Array>::second);
        from_expected.tolerance.common +=
            roundings_of_weight * roundoff_of(world_.type) * largest_of(from_expected.value);
        if (agrees(from_found, from_expected.value, from_expected.tolerance))
            return true;
        different_.emplace(user, std::pair(std::move(from_found), std::move(from_expected.value)));
        return false;
    }

    Diff::World::Recomputed computed(std::size_t user, Array std::pair<Array, Array>::*which)
    {
        const Diff::World::ArrayOf array_of = [&](std::size_t i) -> const Array& {
            if (different_.contains(i))
                return different_.at(i).*which;
            return i < step_ ? world_.plain(i) : world_.reference[i].value; // later arrays of MINE are not judged yet
        };
        return world_.recomputed(world_.evaluate_both(user, world_.steps.formula(user), array_of, array_of), {});
    }

    Diff::World& world_;
    std::size_t step_;
    std::map<std::size_t, std::pair<Array, Array>> different_; ///< found, expected
    std::set<std::size_t> used_;
    std::size_t softmaxes_ = 0;
};

/// True for scores, of whatever stage: a softmax uses them, or a step that leads to one does; nothing else but masks and scales
/// stands between.
bool leads_to_softmax(Diff::World& world, std::size_t step)
{
    for (std::size_t user = step + 1; user < world.reference.size(); ++user) {
        const std::vector<std::size_t>& used = world.operands(user);
        if (std::ranges::find(used, step) == used.end())
            continue;
        if (world.reference[user].value.shape != world.reference[step].value.shape)
            return false;
        if (is_softmax(world.reference[user]))
            return true;
        step = user;
    }
    return false;
}

/// Whether all that uses a step leads to steps that MINE has right.
class RightFollowers {
public:
    explicit RightFollowers(Diff::World& world) : world_(world) {}

    bool follow(std::size_t step)
    {
        std::vector<std::size_t> users;
        for (std::size_t user = step + 1; user < world_.reference.size(); ++user)
            if (const auto& operands = world_.operands(user); std::ranges::find(operands, step) != operands.end())
                users.push_back(user);
        return !users.empty() && std::ranges::all_of(users, [&](std::size_t user) {
            const Array* mine = array_of(user);
            return mine != nullptr ? is_right(*mine, user) : ++followed_ <= most_steps && follow(user);
        });
    }

private:
    const Array* array_of(std::size_t step) const
    {
        const auto claim = std::ranges::find(world_.claims.claims, step, &Claim::step);
        return claim == world_.claims.claims.end() ? nullptr : claim->array;
    }

    /// Near to the reference's; nothing is recomputed, for the arrays in between are not judged yet.
    bool is_right(const Array& mine, std::size_t step) const
    {
        const Array& right = world_.reference[step].value;
        return agrees(mine, right, {roundings_of_weight * roundoff_of(world_.type) * largest_of(right)});
    }

    Diff::World& world_;
    std::size_t followed_ = 0;
};

/// True where the numbers agree but for NaN in rows that are all zero.
bool is_nan_in_empty_rows(const Array& found, const Diff::World::Recomputed& expected)
{
    const Array seen = zeros_in_empty_rows(found, expected.value);
    return !same_numbers(seen, found) && agrees(seen, expected.value, expected.tolerance);
}

} // namespace

std::optional<std::string> why_without_effect(Diff::World& world, std::size_t step, const Array& found,
                                              const Diff::World::Recomputed& expected)
{
    if (found.shape != expected.value.shape)
        return std::nullopt;
    if (is_softmax(world.reference[step]))
        return is_nan_in_empty_rows(found, expected)
                   ? std::optional("is NaN for queries that can attend to nothing: attn has zeros there")
                   : std::nullopt;
    try {
        // Where a weight is zero, the gradient that arrives at it is multiplied by zero: programs leave it out.
        if (world.reference[step].path.starts_with(formula::gradient_scope))
            return Effect(world, step, found, expected.value).ends_at_once()
                       ? std::optional("differs, without effect on the gradients that follow")
                       : std::nullopt;
        if (const auto like_mine =
                filled_and_shifted(expected.value, found, expected.tolerance, roundoff_of(world.type));
            like_mine && Effect(world, step, *like_mine, expected.value).ends_in_softmax())
            return "differs, without effect on the weights: the softmax that follows gives the same";
        if (leads_to_softmax(world, step) && is_another_quantity(world, step, found, expected) &&
            RightFollowers(world).follow(step))
            return "differs, without effect on the weights: what MINE has after it is right";
    } catch (const formula::FormulaError&) {
    }
    return std::nullopt;
}

} // namespace attn::diff
