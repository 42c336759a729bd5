// Whether a difference ends in a softmax.

#include "effect.hpp"

#include "attn/formula/expression.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace attn {
namespace {

// From the bias or the scores it is a few steps to the softmax: biased, scaled, masked.
constexpr std::size_t most_steps = 64;
// By how many roundings a weight may change when its row is shifted.
constexpr double roundings_of_shift = 32;

/// True where each row differs by a shift of its finite numbers, and in what is minus infinity by any number below.
bool is_fill_or_shift(const Array& found, const Array& expected, double roundoff)
{
    const std::size_t length = expected.shape.empty() ? 1 : expected.shape.back();
    for (std::size_t begin = 0; begin < expected.size(); begin += length) {
        std::optional<double> shift;
        for (std::size_t i = begin; i < begin + length; ++i) {
            const double right = expected.values[i], number = found.values[i];
            if (std::isnan(number) || number == std::numeric_limits<double>::infinity())
                return false;
            if (right == -std::numeric_limits<double>::infinity())
                continue;
            const double size = std::max({std::abs(number), std::abs(right), std::abs(shift.value_or(0))});
            if (!(std::abs(number - right - shift.value_or(number - right)) <= roundings_of_shift * roundoff * size))
                return false;
            shift = shift.value_or(number - right);
        }
    }
    return true;
}

bool is_softmax(const Step& step) { return step.formula.starts_with("softmax("); }

/// What follows from a step twice: from MINE's numbers, and from the expected ones.
class Effect {
public:
    Effect(Diff::World& world, std::size_t step, const Array& found, const Array& expected) : world_(world), step_(step)
    {
        different_.emplace(step, std::pair(found, expected));
    }

    bool ends_in_softmax()
    {
        std::size_t softmaxes = 0, followed = 0;
        for (std::size_t user = step_ + 1; user < world_.reference.size(); ++user) {
            if (!uses_different(user))
                continue;
            if (++followed > most_steps)
                return false;
            if (!follow(user) && is_softmax(world_.reference[user]))
                return false;
            softmaxes += is_softmax(world_.reference[user]) ? 1 : 0;
        }
        return softmaxes > 0 &&
               std::ranges::all_of(different_, [&](const auto& one) { return used_.contains(one.first); });
    }

private:
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
            roundings_of_shift * roundoff_of(world_.type) * largest_of(from_expected.value);
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
        return world_.recomputed(world_.evaluate_both(user, world_.reference[user].formula, array_of, array_of));
    }

    Diff::World& world_;
    std::size_t step_;
    std::map<std::size_t, std::pair<Array, Array>> different_; ///< found, expected
    std::set<std::size_t> used_;
};

} // namespace

bool is_without_effect(Diff::World& world, std::size_t step, const Array& found, const Array& expected)
{
    if (found.shape != expected.shape || !is_fill_or_shift(found, expected, roundoff_of(world.type)))
        return false;
    try {
        return Effect(world, step, found, expected).ends_in_softmax();
    } catch (const FormulaError&) {
        return false;
    }
}

} // namespace attn
