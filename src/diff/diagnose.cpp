// Which well-known mistake gives what MINE has.

#include "diagnose.hpp"

#include "altered.hpp"
#include "first_order.hpp"
#include "name_vocabulary.hpp"

#include "attn/core/budget.hpp"
#include "attn/formula/expression.hpp"
#include "attn/mistakes/head_scope.hpp"
#include "world.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

namespace attn::diff {
namespace {

// --------------------------------------------------------------------------------------------------- whether it was it

/// The largest difference; infinite where one number is finite and the other isn't.
double distance_between(const Array& found, const Array& expected)
{
    double largest = found.shape == expected.shape ? 0 : std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < found.size() && found.shape == expected.shape; ++i)
        if (const double off = times_off(found.values[i], expected.values[i], 1); off > largest)
            largest = off;
    return largest;
}

/// A mistake as it can have been made.
struct Trial {
    const mistakes::Pitfall* pitfall;
    Edits edits;
    std::size_t place;                        ///< in the list: of two forms that are as near, the first is named
    double unlikeness = FirstOrder::unlikely; ///< of its effect, to first order
    double off = 0;                           ///< how far MINE is from what it gives, where that is near
};

/// How far MINE is from what edits give; nothing where that isn't much nearer than the right numbers are, or all of MINE's are
/// NaN, which tell nothing of which step was the first.
std::optional<double> distance_after(Altered& altered, const Wrong& wrong, double distance, Diff::World& world)
{
    constexpr double much_nearer = 0.5;
    try {
        const Array value = altered.value();
        const double off = distance_between(wrong.found, value);
        const auto is_given = [&](std::size_t step) { return world.reference[step].formula.empty(); };
        const bool tells = std::ranges::all_of(wrong.before, is_given) ||
                           std::ranges::any_of(wrong.found.values, [](double x) { return std::isfinite(x); });
        const bool is_near = tells && value.shape == wrong.found.shape && off <= much_nearer * distance;
        return is_near && has_fill_of(wrong.found, value, wrong.right) ? std::optional(off) : std::nullopt;
    } catch (const formula::FormulaError&) {
        return std::nullopt; // an operand is missing, or of another shape: so it is not this mistake
    }
}

/// True where a mistake gives MINE's numbers up to roundings of the world's type, and the right formulas don't.
bool is_explained_by(Altered& altered, const Wrong& wrong)
{
    const Diff::World::Recomputed mistaken = altered.recompute(wrong.right);
    return agrees(without_fill(wrong.found, wrong.right), mistaken.value, mistaken.tolerance) &&
           !(agrees(wrong.right, mistaken.value, mistaken.tolerance) &&
             agrees(wrong.right, altered.value(), mistaken.tolerance));
}

/// What is no farther off than this is as near.
double as_near_as(double off, const Array& right)
{
    constexpr double same = 1 + 1e-6;
    return same * off + roundings_of_result * roundoff_of(NumberType::float64) * largest_of(right);
}

/// The nearest first; of those that are as near, the first of the list. The others are alternatives to the first.
void rank(std::vector<Diagnosis>& diagnoses, const Array& right)
{
    if (diagnoses.empty())
        return;
    std::ranges::stable_sort(diagnoses, {}, &Diagnosis::off);
    const double nearest = as_near_as(diagnoses.front().off, right);
    const auto end = std::ranges::find_if(diagnoses, [&](const Diagnosis& one) { return one.off > nearest; });
    std::ranges::stable_sort(diagnoses.begin(), end, {}, &Diagnosis::pitfall); // one array has them all
    for (std::size_t i = 1; i < diagnoses.size(); ++i)
        diagnoses[i].is_alternative = true;
}

/// The steps that something follows from that MINE has right. In a backward pass much comes after a wrong gradient that does
/// not follow from it.
std::set<std::size_t> before_what_is_right(Diff::World& world)
{
    constexpr double cancelled = 1e-9; // the gradient of a key's bias is zero, whatever that of the keys is
    std::set<std::size_t> before;
    for (std::size_t step = 0; step < world.known.size(); ++step) {
        if (!world.known[step].is_claimed || world.known[step].is_wrong)
            continue;
        const double size = largest_of(world.reference[step].value);
        if (std::ranges::all_of(world.operands(step), [&](std::size_t operand) {
                return size > cancelled * largest_of(world.reference[operand].value);
            }))
            before.merge(world.unknown_before(step));
    }
    return before;
}

/// True where a form makes a step of one head from those of all.
bool is_of_all_heads(const mistakes::PitfallForm& form)
{
    return std::ranges::any_of(form.edits, [](const mistakes::StepEdit& edit) {
        return edit.mistaken.find("{heads.") != std::string_view::npos;
    });
}

/// What MINE does not have before a step of one head, and before the same step of the others.
std::set<std::size_t> unknown_before_heads(std::size_t step, Diff::World& world)
{
    std::set<std::size_t> unknown;
    const auto head = mistakes::head_scope(world.reference[step].path);
    for (std::size_t i = 0; head; ++i) {
        const auto other =
            world.names.find(std::string(head->before) + "head." + std::to_string(i) + std::string(head->rest));
        if (!other)
            break;
        unknown.merge(world.unknown_before(*other));
    }
    return unknown;
}

/// Tries mistakes until half of what was left of the budget is spent, or nearly all where the result is all that MINE has; then
/// those first that are likely to first order.
class Search {
    static constexpr double half = 0.5, of_result = 0.05;

public:
    Search(const Wrong& wrong, Diff::World& world)
        : wrong_(wrong), world_(world), distance_(distance_between(wrong.found, wrong.right)), open_(wrong.before)
    {
        if (is_gradient(world.reference[wrong.step].path))
            for (const std::size_t step : before_what_is_right(world))
                open_.erase(step);
        open_.insert(wrong.step);
        open_in_heads_ = unknown_before_heads(wrong.step, world);
        open_in_heads_.insert(open_.begin(), open_.end());
    }

    /// The mistakes of a backward pass, or of a forward one, that give what is wrong, the nearest first.
    std::vector<Diagnosis> mistakes(Reach reach, bool of_gradients)
    {
        std::vector<Diagnosis> diagnoses = mistakes(reach, of_gradients, false);
        return diagnoses.empty() ? mistakes(reach, of_gradients, true) : diagnoses;
    }

    /// The same of those that were near, where MINE's numbers are float64 and were computed in float32, at least in part.
    std::vector<Diagnosis> in_float32()
    {
        if (world_.type != NumberType::float64 || near_.empty())
            return {};
        world_.compute_as(NumberType::float32);
        std::vector<Diagnosis> diagnoses;
        for (const Trial& trial : near_) {
            Altered altered(world_, wrong_, trial.edits);
            if (std::ranges::find(diagnoses, trial.pitfall, &Diagnosis::pitfall) == diagnoses.end() &&
                is_explained_by(altered, wrong_))
                diagnoses.push_back(diagnosis_of(*trial.pitfall, trial.edits, world_, trial.off));
        }
        world_.compute_as(NumberType::float64);
        rank(diagnoses, wrong_.right);
        return diagnoses;
    }

    bool is_cut() const { return is_cut_; }

private:
    /// The nearest form of each mistake, and its place.
    using Found = std::map<const mistakes::Pitfall*, std::pair<Diagnosis, std::size_t>>;

    bool is_better(double off, std::size_t place, const Found::mapped_type& known) const
    {
        return as_near_as(off, wrong_.right) < known.first.off ||
               (off <= as_near_as(known.first.off, wrong_.right) && place < known.second);
    }

    /// From the result alone each way of looking may spend half of what is left; once one is found, others that give the same are
    /// looked for as long as that took. Whether roundings explain what is left costs more than a mistake: where much is left, that
    /// is asked in the end, of the nearest first.
    std::vector<Diagnosis> mistakes(Reach reach, bool of_gradients, bool are_general)
    {
        std::vector<Trial> all = trials(reach, of_gradients, are_general), not_so_near;
        const double begin = current_budget()->left();
        double least_left = least_left_ + (is_result_alone_ ? half * std::max(begin - least_left_, 0.0) : 0);
        Found best;
        const auto try_each = [&](std::vector<Trial>& some, std::vector<Trial>* later) {
            for (Trial& trial : some) {
                const double left = current_budget()->left();
                if (left < least_left) {
                    is_cut_ = true;
                    break;
                }
                if (try_it(trial, best, later) && is_result_alone_) {
                    const double spent = begin - current_budget()->left();
                    least_left = std::max(least_left_, begin - 2 * std::max(spent, operations_of_a_second));
                }
            }
        };
        try_each(all, &not_so_near);
        std::ranges::stable_sort(not_so_near, {}, &Trial::off);
        try_each(not_so_near, nullptr);
        std::vector<Diagnosis> diagnoses;
        for (auto& [pitfall, found] : best)
            diagnoses.push_back(std::move(found.first));
        rank(diagnoses, wrong_.right);
        return diagnoses;
    }

    std::vector<Trial> trials(Reach reach, bool of_gradients, bool are_general)
    {
        std::vector<Trial> trials;
        for (const mistakes::Pitfall& pitfall : mistakes::pitfalls())
            if (pitfall.shown().step.starts_with(formula::gradient_scope) == of_gradients &&
                pitfall.is_general == are_general)
                for (const mistakes::PitfallForm& form : pitfall.forms)
                    if (wrong_.has_effect || form.is_named_without_effect)
                        for (const std::string_view value : form.values)
                            for (Edits& edits :
                                 choices_of(form, value, reach, is_of_all_heads(form) ? open_in_heads_ : open_, world_))
                                trials.push_back({&pitfall, std::move(edits), trials.size()});
        if (is_result_alone_)
            put_likely_first(trials);
        return trials;
    }

    /// What edits take to be looked at, about: products of matrices read many numbers.
    double numbers_read(const Edits& edits)
    {
        double read = 0;
        for (const auto& [step, formula] : edits) {
            read += static_cast<double>(world_.plain(step).size());
            for (const std::size_t operand : world_.operands(step))
                read += static_cast<double>(world_.plain(operand).size());
        }
        return read;
    }

    /// To know which are likely takes about as long as to make some of them: those that take little are looked at first, for as many
    /// as half of the budget is enough for.
    void put_likely_first(std::vector<Trial>& trials)
    {
        constexpr std::size_t some = 16;
        if (trials.size() <= some || !has_way_back_)
            return;
        std::ranges::stable_sort(trials, {}, [this](const Trial& trial) { return numbers_read(trial.edits); });
        try {
            const BudgetShare share(half);
            if (!first_order_)
                first_order_.emplace(wrong_, world_);
            for (Trial& trial : trials)
                trial.unlikeness = first_order_->unlikeness(trial.edits);
        } catch (const Error&) {
            has_way_back_ = first_order_.has_value();
        }
        // What is alike in a hundredth stays in the order of the list: to first order no more is known.
        std::ranges::sort(
            trials, {}, [](const Trial& trial) { return std::pair(std::round(100 * trial.unlikeness), trial.place); });
    }

    /// @param later  takes those that are not so near, if any
    /// @return true where it explains the wrong numbers, and better than another form of the same mistake
    bool try_it(Trial& trial, Found& best, std::vector<Trial>* later)
    {
        constexpr double rounded = 1e-3, most_roundings = 1000;
        Altered altered(world_, wrong_, trial.edits);
        const std::optional<double> off = distance_after(altered, wrong_, distance_, world_);
        const auto known = best.find(trial.pitfall);
        if (!off || (known != best.end() && !is_better(*off, trial.place, known->second)))
            return false;
        trial.off = *off;
        if (later != nullptr && *off > most_roundings * wrong_.roundings) {
            later->push_back(trial);
            return false;
        }
        if (is_explained_by(altered, wrong_)) {
            best.insert_or_assign(trial.pitfall,
                                  std::pair(diagnosis_of(*trial.pitfall, trial.edits, world_, *off), trial.place));
            return true;
        }
        if (*off <= rounded * distance_)
            near_.push_back(trial);
        return false;
    }

    static constexpr double operations_of_a_second = 1e9;

    const Wrong& wrong_;
    Diff::World& world_;
    double distance_;
    std::set<std::size_t> open_;          ///< where a mistake can have been made
    std::set<std::size_t> open_in_heads_; ///< the same for one that mixes heads
    std::optional<FirstOrder> first_order_;
    bool has_way_back_ = true; ///< from the wrong step, within the budget
    std::vector<Trial> near_;  ///< that roundings of the world's type don't explain, and of a shorter one can
    bool is_cut_ = false;
    const bool is_result_alone_ = world_.claims.claims.size() == 1; ///< a mistake can be anywhere in all of a program
    const double least_left_ = current_budget()->left() * (is_result_alone_ ? of_result : half);
};

/// @return the mistakes that give what is wrong, made in the step or in those before it; the nearest first
std::vector<Diagnosis> mistakes_that_give(const Wrong& wrong, Diff::World& world)
{
    const bool is_of_gradient = is_gradient(world.reference[wrong.step].path);
    if (wrong.right.shape != wrong.found.shape && !is_of_gradient) // the reference does not follow from its own formula
        return {};
    Search search(wrong, world);
    std::vector<Diagnosis> diagnoses;
    for (const bool of_gradients : {true, false})
        for (const Reach reach : {Reach::all, Reach::kind, Reach::place})
            if (diagnoses.empty() && (is_of_gradient || !of_gradients) && (reach == Reach::all || !world.is_everywhere))
                diagnoses = search.mistakes(reach, of_gradients);
    if (diagnoses.empty())
        diagnoses = search.in_float32();
    world.is_search_cut = world.is_search_cut || (diagnoses.empty() && search.is_cut());
    return diagnoses;
}

/// What is to be explained: the first wrong step, or the first that differs without effect.
const StepDiff* to_explain(const Diff& diff)
{
    return diff.first_wrong() != nullptr ? diff.first_wrong() : diff.first_without_effect();
}

/// The array of MINE that a verdict is about.
const Array* array_of(const StepDiff& step, const Diff& diff)
{
    return diff.world->claims.claims[static_cast<std::size_t>(&step - diff.steps.data())].array;
}

std::vector<Diagnosis> explanations_of(const StepDiff& wrong, const Diff& diff)
{
    const bool is_of_gradient = is_gradient(wrong.step->path);
    Diff::World& world = *diff.world;
    const std::size_t step = world.names.find(wrong.step->path).value();
    const Array* found = array_of(wrong, diff);
    if (found == nullptr || (found->shape != wrong.step->value.shape && !is_of_gradient))
        return {}; // what is not summed over the copies has another shape
    try {
        const bool is_given = wrong.step->formula.empty();
        const Diff::World::Recomputed right =
            is_given ? Diff::World::Recomputed{wrong.step->value, {}} : world.recompute(step);
        return mistakes_that_give({step, *found, right.value, world.unknown_before(step),
                                   wrong.verdict != DiffVerdict::no_effect, right.tolerance.typical},
                                  world);
    } catch (const formula::FormulaError&) {
        return {}; // the right numbers aren't known: an operand is missing, or of another shape
    }
}

/// What explains the last array that differs, as if MINE had nothing else. So saving more arrays never loses a
/// diagnosis: weights can be right, and others be used.
std::vector<Diagnosis> explanations_of_result(const Diff& diff)
{
    const auto differs = [](const StepDiff& step) {
        return !step.passed() && step.step->value.type == ElementType::real;
    };
    const auto last = std::find_if(diff.steps.rbegin(), diff.steps.rend(), differs);
    if (last == diff.steps.rend() || array_of(*last, diff) == nullptr || diff.steps.size() == 1)
        return {};
    DiffOptions options{.everywhere = diff.world->is_everywhere};
    options.type = diff.type;
    diff.world->of_result =
        std::make_shared<Diff>(compare(diff.world->run, {{last->step->path, *array_of(*last, diff)}}, options));
    return diagnoses_of_first(*diff.world->of_result);
}

/// What explains a later step that is wrong by itself. Dropout gives a product that no formula does, and then zeros.
std::vector<Diagnosis> explanations_of_later(const Diff& diff)
{
    const bool is_cut = diff.world->is_search_cut; // the search for the first wrong step
    std::size_t left = 4;                          // each takes as long as the first
    std::vector<Diagnosis> diagnoses;
    for (const StepDiff& step : diff.steps) {
        if (left == 0 || !diagnoses.empty())
            break;
        if (step.verdict != DiffVerdict::bug || &step == diff.first_wrong())
            continue;
        --left;
        diagnoses = explanations_of(step, diff);
        for (Diagnosis& diagnosis : diagnoses)
            diagnosis.later = step.step;
    }
    diff.world->is_search_cut = is_cut;
    return diagnoses;
}

std::vector<Diagnosis> explanations(const Diff& diff)
{
    const StepDiff* wrong = to_explain(diff);
    std::vector<Diagnosis> of_first = wrong == nullptr ? std::vector<Diagnosis>{} : explanations_of(*wrong, diff);
    if (diff.first_wrong() == nullptr)
        return of_first;
    // What explains the result, too, explains most. Where MINE says what it computed from what, it has all on the way.
    if (of_first.size() == 1 && !diff.world->mine->graph().knows_reads())
        return of_first;
    std::vector<Diagnosis> of_result;
    try {
        of_result = explanations_of_result(diff);
    } catch (const BudgetError&) {
        diff.world->of_result.reset();
        diff.world->is_search_cut = of_first.empty();
        return of_first;
    }
    const std::vector<Diagnosis> all = of_first;
    std::erase_if(of_first, [&](const Diagnosis& one) {
        return std::ranges::find(of_result, one.pitfall, &Diagnosis::pitfall) == of_result.end();
    });
    if (of_first.empty() && !of_result.empty())
        return of_result;
    diff.world->of_result.reset(); // not what is returned
    if (of_first.empty())
        return all;
    of_first.front().is_alternative = false;
    return of_first;
}

} // namespace

std::map<std::string, Array, std::less<>> steps_after(const Diagnosis& diagnosis, const Diff& diff)
{
    if (diff.world->of_result != nullptr)
        return steps_after(diagnosis, *diff.world->of_result);
    Diff::World& world = *diff.world;
    const StepDiff* wrong = to_explain(diff);
    const std::size_t step = world.names.find(wrong->step->path).value();
    Edits edits;
    for (std::size_t i = 0; i < diagnosis.steps.size(); ++i)
        edits.emplace(world.names.find(diagnosis.steps[i]->path).value(), diagnosis.formulas[i]);
    const Wrong at_step{step, *array_of(*wrong, diff), {}, world.unknown_before(step)};
    return Altered(world, at_step, edits).steps();
}

bool is_diagnosis_cut(const Diff& diff) { return diff.world->is_search_cut; }

const std::vector<Diagnosis>& diagnoses_of_first(const Diff& diff)
{
    const BudgetScope budget;
    std::optional<std::vector<Diagnosis>>& known = diff.world->diagnoses;
    if (!known)
        try {
            known = explanations(diff);
        } catch (const BudgetError&) {
            known.emplace();
            diff.world->is_search_cut = true;
        }
    return *known;
}

std::vector<Diagnosis> diagnose(const Diff& diff)
{
    const BudgetScope budget;
    const std::vector<Diagnosis>& of_first = diagnoses_of_first(diff);
    const bool is_first_sure = diff.world->mine->graph().knows_reads(); // and another step can be wrong because of it
    if (!of_first.empty() || diff.first_wrong() == nullptr || is_first_sure)
        return of_first;
    try {
        return explanations_of_later(diff);
    } catch (const BudgetError&) {
        diff.world->is_search_cut = true;
        return {};
    }
}

} // namespace attn::diff
