// What a comparison that found nothing wrong could not have seen.

#include "altered.hpp"
#include "compare.hpp"
#include "edits.hpp"
#include "world.hpp"

#include "attn/core/budget.hpp"
#include "attn/formula/expression.hpp"
#include "attn/mistakes/head_scope.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace attn::diff {
namespace {

// So few numbers are off, or near to what a mistake gives, by chance.
constexpr double few = 100;

/// Sums of squares.
struct Squares {
    double numbers = 0;       ///< how many there are
    double from_right = 0;    ///< how far MINE is from what is right
    double from_mistaken = 0; ///< from what a mistake gives
    double of_mistake = 0;    ///< how far that is from what is right

    Squares& operator+=(const Squares& other)
    {
        numbers += other.numbers;
        from_right += other.from_right;
        from_mistaken += other.from_mistaken;
        of_mistake += other.of_mistake;
        return *this;
    }

    double mean_off() const { return numbers > few ? std::sqrt(from_right / numbers) : 0; }
    double mean_change() const { return numbers > few ? std::sqrt(of_mistake / numbers) : 0; }

    /// True where MINE is at most half as far from what the mistake gives, and that is no matter of less than half of the noise.
    bool is_nearer() const
    {
        constexpr double half = 0.5;
        return numbers > few && mean_change() >= half && from_mistaken <= half * half * from_right;
    }
};

/// @param noise  the unit
Squares squares_of(const Array& found, const Array& right, const Array& mistaken, double noise)
{
    Squares sum;
    for (std::size_t i = 0; i < found.size(); ++i) {
        const double off = (found.values[i] - right.values[i]) / noise;
        const double change = (mistaken.values[i] - right.values[i]) / noise;
        if (!std::isfinite(off) || !std::isfinite(change))
            continue;
        sum += {1, off * off, (off - change) * (off - change), change * change};
    }
    return sum;
}

class Measure {
public:
    explicit Measure(const Diff& diff) : world_(*diff.world)
    {
        std::vector<std::size_t> steps;
        for (std::size_t i = 0; i < diff.steps.size(); ++i) {
            const std::size_t step = world_.claims.claims[i].step;
            const Array* found = world_.steps.own(step);
            if (diff.steps[i].verdict == DiffVerdict::no_effect || found == nullptr ||
                found->type != ElementType::real || world_.reference[step].formula.empty())
                continue;
            compared_.push_back({step, *found, world_.unknown_before(step)});
            compared_.back().before.insert(step);
            steps.push_back(step);
        }
        open_ = world_.steps.all_before(steps, [](std::size_t) { return false; });
        open_.insert(steps.begin(), steps.end());
    }

    Power power()
    {
        try {
            for (const mistakes::Pitfall& pitfall : mistakes::pitfalls()) {
                if (current_budget()->left() < least_left_)
                    throw BudgetError("the rest is for what follows");
                add(pitfall);
            }
        } catch (const BudgetError&) {
            power_.is_cut = true;
        }
        power_.save = cheapest();
        return std::move(power_);
    }

    /// Looks for the step that is off by the most times more than roundings, in the mean.
    void note_times_off(Power& power)
    {
        for (Compared& one : compared_) {
            const auto [right, noise] = typical(one.step);
            if (const double times = squares_of(one.found, right, right, noise).mean_off(); times > power.times_off) {
                power.times_off = times;
                power.off_in = world_.reference[one.step].path;
            }
        }
    }

private:
    /// A step that was compared, and found right.
    struct Compared {
        std::size_t step;
        const Array& found;
        std::set<std::size_t> before; ///< itself, and the steps before it that MINE does not have
        std::optional<Diff::World::Recomputed> right = {};
        double noise = 0; ///< once the right one is known
    };

    /// True for what only MINE's own numbers tell, as which of them dropout has left.
    static bool depends_on_mine(const mistakes::PitfallForm& form)
    {
        return std::ranges::any_of(form.edits, [](const mistakes::StepEdit& edit) {
            return edit.mistaken.find("mine") != std::string_view::npos;
        });
    }

    /// A mistake is seen if most of the ways in which it can be made here are.
    void add(const mistakes::Pitfall& pitfall)
    {
        std::size_t possible = 0, seen = 0;
        for (const mistakes::PitfallForm& form : pitfall.forms)
            for (const std::string_view value : form.values) {
                const Edits edits = depends_on_mine(form) ? Edits{} : edits_of(form, value, open_, world_);
                const std::optional<bool> is_seen = changes_something(edits) ? sees(pitfall, edits) : std::nullopt;
                possible += is_seen ? 1 : 0;
                seen += is_seen.value_or(false) ? 1 : 0;
                if (!is_seen.value_or(true))
                    tell_by_.push_back(places_of(edits));
            }
        power_.possible += possible > 0 ? 1 : 0;
        power_.seen += possible > 0 && 2 * seen >= possible ? 1 : 0;
    }

    /// True where a step that is edited would change by more than it is rounded: what that hides is no mistake.
    bool changes_something(const Edits& edits)
    {
        const Diff::World::ArrayOf plain = [this](std::size_t i) -> const Array& { return world_.plain(i); };
        return std::ranges::any_of(edits, [&](const auto& edit) {
            try {
                const auto& [step, formula] = edit;
                const Array mistaken = world_.evaluate_step(step, formula, plain).value;
                const Array right = world_.evaluate_step(step, world_.reference[step].formula, plain).value;
                return mistaken.shape == right.shape && !agrees(mistaken, right, world_.tolerance_of(right));
            } catch (const formula::FormulaError&) {
                return false;
            }
        });
    }

    /// Whether something that was compared would be off by more than roundings; nothing where the mistake has no effect on it.
    std::optional<bool> sees(const mistakes::Pitfall& pitfall, const Edits& edits)
    {
        Squares all;
        bool has_effect = false;
        for (Compared& one : compared_) {
            if (std::ranges::none_of(edits, [&](const auto& edit) { return one.before.contains(edit.first); }))
                continue;
            const auto mistaken = value_after(edits, one);
            if (!mistaken)
                continue;
            const Diff::World::Recomputed& right = right_of(one);
            const Squares squares = squares_of(one.found, right.value, *mistaken, one.noise);
            if (!agrees(*mistaken, right.value, right.tolerance) || squares.mean_change() > 1 + squares.mean_off())
                return true;
            const double in_double = roundings_of_result * roundoff_of(NumberType::float64) * largest_of(right.value);
            has_effect = has_effect || !agrees(*mistaken, right.value, {in_double});
            all += squares;
        }
        if (!has_effect)
            return std::nullopt;
        if (all.is_nearer())
            power_.nearer.push_back(diagnosis_of(pitfall, edits, world_));
        return false;
    }

    std::optional<Array> value_after(const Edits& edits, const Compared& one)
    {
        try {
            const Wrong wrong{one.step, one.found, {}, one.before};
            Array value = Altered(world_, wrong, edits).value();
            return value.shape == one.found.shape ? std::optional(std::move(value)) : std::nullopt;
        } catch (const formula::FormulaError&) {
            return std::nullopt; // it can't be made there
        }
    }

    const Diff::World::Recomputed& right_of(Compared& one)
    {
        if (!one.right) {
            one.right = world_.recompute(one.step, more_draws);
            one.noise = typical(one.step).noise;
        }
        return *one.right;
    }

    /// What is right, and how far off right numbers are in the mean, at most: where each number that the step is computed from is off
    /// by a whole rounding, its formula's operations err, and it is rounded itself.
    struct Typical {
        Array right;
        double noise;
    };
    Typical typical(std::size_t step)
    {
        Diff::World::Both both = world_.evaluate_both(
            step, world_.reference[step].formula, [this](std::size_t i) -> const Array& { return world_.plain(i); },
            [this](std::size_t i) -> const Array& { return world_.moved(i); });
        double sum = 0;
        std::size_t count = 0;
        for (std::size_t i = 0; i < both.plain.value.size(); ++i) {
            const double number = both.plain.value.values[i], move = both.moved.values[i] - number;
            const double rounding = roundoff_of(world_.type) * number, error = both.plain.error[i];
            if (const double square = move * move + rounding * rounding + error * error; std::isfinite(square)) {
                sum += square;
                ++count;
            }
        }
        const double mean = count == 0 ? 0 : std::sqrt(sum / static_cast<double>(count));
        return {std::move(both.plain.value), smallest_of(world_.type) + mean};
    }

    /// The steps that would tell: those that are edited, or what they are computed from where MINE has them.
    std::set<std::size_t> places_of(const Edits& edits)
    {
        std::set<std::size_t> places;
        for (const auto& [step, formula] : edits) {
            if (!world_.known[step].is_claimed)
                places.insert(step);
            else
                for (const std::size_t operand : world_.operands(step))
                    if (!world_.known[operand].is_claimed)
                        places.insert(operand);
        }
        return places;
    }

    /// The steps that tell most of what is not seen, the smallest of those first; until all is told, or enough is listed.
    std::vector<std::string> cheapest()
    {
        constexpr std::size_t most = 4;
        std::vector<std::string> save;
        while (save.size() < most) {
            std::map<std::size_t, std::size_t> count;
            for (const std::set<std::size_t>& places : tell_by_)
                for (const std::size_t place : places)
                    ++count[place];
            if (count.empty())
                break;
            const auto rank = [this](const auto& one) {
                return std::pair(one.second, -static_cast<double>(world_.reference[one.first].value.size()));
            };
            const std::size_t best = std::ranges::max_element(count, {}, rank)->first;
            save.push_back(world_.reference[best].path);
            std::erase_if(tell_by_, [&](const std::set<std::size_t>& places) { return places.contains(best); });
        }
        return save;
    }

    Diff::World& world_;
    std::vector<Compared> compared_;
    std::set<std::size_t> open_; ///< where a mistake can be made
    std::vector<std::set<std::size_t>> tell_by_;
    Power power_;
    const double least_left_ = current_budget()->left() / 2;
};

AttentionSizes sizes_of(Diff::World& world)
{
    AttentionSizes sizes;
    for (std::size_t i = 0; i < world.reference.size(); ++i) {
        const Step& scores = world.reference[i];
        const auto queries = world.names.resolve(i, "queries"), keys = world.names.resolve(i, "keys");
        if (!queries || !keys || scores.value.rank() < 2 || !scores.formula.starts_with("queries @ keys.T"))
            continue;
        const Shape &of = scores.value.shape, &one = world.reference[*keys].value.shape;
        const auto head = mistakes::head_scope(scores.path);
        const std::size_t heads = head            ? std::stoul(std::string(head->number)) + 1
                                  : of.size() > 3 ? of[of.size() - 3]
                                                  : 1;
        sizes = {std::max(sizes.keys, of.back()), std::max(sizes.queries, of[of.size() - 2]),
                 std::max(sizes.features, one.back()), std::max(sizes.heads, heads)};
    }
    return sizes;
}

/// The same of the result, as if MINE had nothing else: each step of a long way can be right to its tolerance where all together
/// are wrong.
void note_times_off_of_result(const Diff& diff, Power& power)
{
    const std::vector<Claim>& claims = diff.world->claims.claims;
    const auto result = std::ranges::find(claims, result_of(diff.world->recording), &Claim::step);
    if (result == claims.end() || result->array == nullptr || diff.world->has_rounded_inputs)
        return; // alone it does not say which inputs it was computed from
    DiffOptions options;
    options.type = diff.type;
    const Diff alone = compare(diff.world->run, {{diff.world->reference[result->step].path, *result->array}}, options);
    Measure(alone).note_times_off(power);
}

} // namespace

Power power_of(const Diff& diff)
{
    const BudgetScope budget;
    Power power;
    try {
        Measure measure(diff);
        power = measure.power();
        power.sizes = sizes_of(*diff.world);
        measure.note_times_off(power);
        note_times_off_of_result(diff, power);
    } catch (const BudgetError&) {
        power.is_cut = true;
    }
    return power;
}

} // namespace attn::diff
