// Which well-known mistake gives what MINE has.

#include "diagnose.hpp"

#include "attn/budget.hpp"
#include "attn/formula/expression.hpp"
#include "attn/what_if/head_scope.hpp"
#include "compare.hpp"
#include "operands_first.hpp"
#include "world.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

namespace attn {
namespace {

/// Steps that are computed by other formulas.
using Edits = std::map<std::size_t, std::string>;

/// What is wrong: a step's numbers.
struct Wrong {
    std::size_t step;
    const Array& found;
    Array right;
    std::set<std::size_t> before; ///< steps before it whose numbers are unknown
    bool has_effect = true;       ///< or it differs, and nothing that follows does
};

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

/// An array with minus infinity where the right one has it.
Array without_fill(Array array, const Array& right)
{
    for (std::size_t i = 0; i < right.size() && array.shape == right.shape; ++i)
        if (right.values[i] == minus_infinity)
            array.values[i] = minus_infinity;
    return array;
}

/// True where two arrays have the same fill in masked places, but for what scores or roundings change of it.
bool has_fill_of(const Array& found, const Array& mistaken, const Array& right)
{
    constexpr double nearly = 0.01; // bfloat16 has three digits
    for (std::size_t i = 0; i < right.size(); ++i)
        if (right.values[i] == minus_infinity &&
            !(times_off(found.values[i], mistaken.values[i], nearly * std::abs(mistaken.values[i])) <= 1))
            return false;
    return true;
}

/// What MINE would have had if some steps that it doesn't have had been computed otherwise.
class Altered {
public:
    /// @param edits  of steps whose numbers are unknown, or of the wrong one
    Altered(Diff::World& world, const Wrong& wrong, const Edits& edits) : world_(world), wrong_(wrong), edits_(edits) {}

    /// The wrong step, as it would have been.
    /// @throws FormulaError where it can't be computed
    Array value() { return world_.evaluate_step(wrong_.step, formula_of(wrong_.step), plain_, &wrong_.found).value; }

    /// The steps that are altered, as they would have been; without those that can't be computed.
    std::map<std::string, Array, std::less<>> steps()
    {
        std::map<std::string, Array, std::less<>> result;
        for (const std::size_t step : wrong_.before)
            try {
                if (is_altered(step))
                    result.emplace(world_.reference[step].path, plain(step));
            } catch (const FormulaError&) {
                under_way_.clear();
            }
        return result;
    }

    /// The same without what fills masked places, and with how far off right numbers can be: a fill of 1e10 says nothing about
    /// the numbers beside it.
    Diff::World::Recomputed recompute(const Array& right)
    {
        Diff::World::Both both = both_of(wrong_.step);
        both.plain.value = without_fill(std::move(both.plain.value), right);
        both.moved.value = without_fill(std::move(both.moved.value), right);
        return world_.recomputed(std::move(both));
    }

private:
    const std::string& formula_of(std::size_t step) const
    {
        const auto edit = edits_.find(step);
        return edit == edits_.end() ? world_.reference[step].formula : edit->second;
    }

    const Array& plain(std::size_t step)
    {
        if (!is_altered(step))
            return world_.plain(step);
        before(step, computed_, [this](std::size_t operand) { plain(operand); });
        const auto known = computed_.find(step);
        return known != computed_.end() ? known->second : compute(step, computed_, [&] {
            return world_.evaluate_step(step, formula_of(step), plain_).value;
        });
    }

    const Array& moved(std::size_t step)
    {
        if (!is_altered(step))
            return world_.moved(step);
        before(step, moved_, [this](std::size_t operand) { moved(operand); });
        const auto known = moved_.find(step);
        return known != moved_.end()
                   ? known->second
                   : compute(step, moved_, [&] { return world_.computed_otherwise(step, both_of(step)); });
    }

    Diff::World::Both both_of(std::size_t step)
    {
        return world_.evaluate_both(step, formula_of(step), plain_, moves_,
                                    step == wrong_.step ? &wrong_.found : nullptr);
    }

    /// Computes what a step follows from, where that could nest too deeply. An edited formula need not use all of it, and what
    /// can't be computed stays under way.
    template <class Compute>
    void before(std::size_t step, const std::map<std::size_t, Array>& results, const Compute& compute)
    {
        constexpr std::size_t many = 2000;
        if (wrong_.before.size() < many)
            return;
        operands_first(
            step, [this](std::size_t at) -> const std::vector<std::size_t>& { return world_.operands(at); },
            [&](std::size_t operand) {
                return !is_altered(operand) || results.contains(operand) || under_way_.contains(operand);
            },
            [&](std::size_t operand) {
                try {
                    compute(operand);
                } catch (const FormulaError&) {
                }
            });
    }

    /// Edits can refer to later steps, and so in a circle.
    template <class Compute>
    const Array& compute(std::size_t step, std::map<std::size_t, Array>& results, const Compute& how)
    {
        if (!under_way_.insert(step).second)
            throw FormulaError(formula_of(step), 0, "the step is computed from itself");
        const Array& result = results.emplace(step, how()).first->second;
        under_way_.erase(step);
        return result;
    }

    bool is_altered(std::size_t step)
    {
        if (edits_.contains(step))
            return true;
        if (!wrong_.before.contains(step))
            return false;
        const auto known = altered_.find(step);
        if (known != altered_.end())
            return known->second;
        operands_first(
            step, [this](std::size_t at) -> const std::vector<std::size_t>& { return world_.operands(at); },
            [this](std::size_t operand) {
                return edits_.contains(operand) || !wrong_.before.contains(operand) || altered_.contains(operand);
            },
            [this](std::size_t operand) { is_altered(operand); });
        const bool is_one = std::ranges::any_of(world_.operands(step), [&](std::size_t i) { return is_altered(i); });
        return altered_[step] = is_one;
    }

    Diff::World& world_;
    const Wrong& wrong_;
    const Edits& edits_;
    const Diff::World::ArrayOf plain_ = [this](std::size_t step) -> const Array& { return plain(step); };
    const Diff::World::ArrayOf moves_ = [this](std::size_t step) -> const Array& { return moved(step); };
    std::map<std::size_t, Array> computed_, moved_; ///< as they are, and with other roundings
    std::map<std::size_t, bool> altered_;
    std::set<std::size_t> under_way_;
};

/// True for a step that is another one under a further name: "x = norm1.output".
bool is_copy(const Step& step) { return is_step_path(step.formula); }

// ----------------------------------------------------------------------------------------------- where it can be made

/// The formula of a step with an edit made in it; nothing where it is not about such a step.
std::optional<std::string> edited(const StepEdit& edit, std::string_view value, std::size_t step,
                                  const Diff::World& world)
{
    constexpr double operations = 50;
    spend(operations);
    const StepOf step_of = [&](std::string_view name) {
        auto number = world.names.resolve(step, name);
        while (number && is_copy(world.reference[*number]))
            number = world.names.resolve(*number, world.reference[*number].formula);
        return number ? &world.reference[*number] : nullptr;
    };
    return mistaken_formula(edit, value, world.reference[step], step_of);
}

/// The scope of a step, without the number of its head: "layers.0.self_attn.".
std::string_view scope_of(const Step& step)
{
    const auto head = head_scope(step.path);
    return head ? head->before : std::string_view(step.path).substr(0, step.path.rfind('.') + 1);
}

/// In which of the steps that a form of a mistake concerns it is made.
enum class Reach {
    wide,  ///< in all of them, or in all of one edit: in one of its maps
    narrow ///< in those of one block, or in one
};

/// The edits of one form, as far as they reach.
std::vector<Edits> choices_of(const PitfallForm& form, std::string_view value, Reach reach,
                              const std::set<std::size_t>& open, const Diff::World& world)
{
    Edits all;
    std::map<std::size_t, Edits> by_edit;
    std::map<std::string_view, Edits> by_scope;
    for (const std::size_t step : open)
        for (std::size_t i = 0; i < form.edits.size(); ++i)
            if (const auto formula = edited(form.edits[i], value, step, world)) {
                all.emplace(step, *formula);
                by_edit[i].emplace(step, *formula);
                by_scope[scope_of(world.reference[step])].emplace(step, *formula);
                break;
            }
    constexpr std::size_t most_choices = 32;
    std::vector<Edits> wide, narrow;
    const auto choose = [&](const Edits& edits, std::vector<Edits>& choices) {
        const bool is_new =
            std::ranges::find(wide, edits) == wide.end() && std::ranges::find(narrow, edits) == narrow.end();
        if (!edits.empty() && is_new && choices.size() < most_choices)
            choices.push_back(edits);
    };
    choose(all, wide);
    if (form.is_joint)
        return reach == Reach::wide && by_edit.size() == form.edits.size() ? wide : narrow;
    for (const auto& [edit, edits] : by_edit)
        choose(edits, wide);
    for (const auto& [scope, edits] : by_scope)
        choose(edits, narrow);
    for (const auto& one : all)
        choose({one}, narrow);
    return reach == Reach::wide ? wide : narrow;
}

// --------------------------------------------------------------------------------------------------- whether it was it

/// The largest difference; infinite where one number is finite and the other isn't.
double distance_between(const Array& found, const Array& expected)
{
    double largest = 0;
    for (std::size_t i = 0; i < found.size(); ++i)
        if (const double off = times_off(found.values[i], expected.values[i], 1); off > largest)
            largest = off;
    return largest;
}

/// How far MINE is from what edits give; nothing where they don't explain it.
std::optional<double> distance_after(const Edits& edits, const Wrong& wrong, double distance, Diff::World& world)
{
    constexpr double much_nearer = 0.5;
    try {
        Altered altered(world, wrong, edits);
        const Array value = altered.value();
        if (value.shape != wrong.found.shape || !(distance_between(wrong.found, value) <= much_nearer * distance))
            return std::nullopt;
        const Diff::World::Recomputed mistaken = altered.recompute(wrong.right);
        if (!agrees(without_fill(wrong.found, wrong.right), mistaken.value, mistaken.tolerance) ||
            !has_fill_of(wrong.found, value, wrong.right) ||
            (agrees(wrong.right, mistaken.value, mistaken.tolerance) && agrees(wrong.right, value, mistaken.tolerance)))
            return std::nullopt;
        return distance_between(wrong.found, value);
    } catch (const FormulaError&) {
        return std::nullopt; // an operand is missing, or of another shape: so it is not this mistake
    }
}

/// Tries mistakes until half of what was left of the budget is spent.
class Search {
public:
    Search(const Wrong& wrong, Diff::World& world)
        : wrong_(wrong), world_(world), distance_(distance_between(wrong.found, wrong.right)), open_(wrong.before)
    {
        open_.insert(wrong.step);
    }

    /// The mistakes that give what is wrong, the nearest first.
    std::vector<Diagnosis> mistakes(Reach reach)
    {
        std::vector<Diagnosis> diagnoses;
        for (const Pitfall& pitfall : pitfalls())
            if (auto one = best_form(pitfall, reach))
                diagnoses.push_back(std::move(*one));
        std::ranges::stable_sort(diagnoses, {}, &Diagnosis::off);
        return diagnoses;
    }

    bool is_exhausted() const { return current_budget()->left() < least_left_; }

private:

    /// A mistake in the form that explains the wrong numbers best; nothing where none does.
    std::optional<Diagnosis> best_form(const Pitfall& pitfall, Reach reach)
    {
        std::optional<Diagnosis> best;
        for (const PitfallForm& form : pitfall.forms)
            for (const std::string_view value : form.values) {
                if (is_exhausted())
                    return best;
                for (const Edits& edits : choices_of(form, value, reach, open_, world_)) {
                    if ((!wrong_.has_effect && !form.is_risk) || is_exhausted())
                        continue;
                    const std::optional<double> off = distance_after(edits, wrong_, distance_, world_);
                    if (!off || (best && best->off <= *off))
                        continue;
                    best = Diagnosis{&pitfall, {}, {}, *off};
                    for (const auto& [number, formula] : edits) {
                        best->steps.push_back(&world_.original(number));
                        best->formulas.push_back(formula);
                    }
                }
            }
        return best;
    }

    const Wrong& wrong_;
    Diff::World& world_;
    double distance_;
    std::set<std::size_t> open_;
    double least_left_ = current_budget()->left() / 2;
};

/// @return the mistakes that give what is wrong, made in the step or in those before it; the nearest first
std::vector<Diagnosis> mistakes_that_give(const Wrong& wrong, Diff::World& world)
{
    if (wrong.right.shape != wrong.found.shape) // the reference does not follow from its own formula
        return {};
    Search search(wrong, world);
    std::vector<Diagnosis> diagnoses = search.mistakes(Reach::wide);
    if (diagnoses.empty())
        diagnoses = search.mistakes(Reach::narrow);
    world.is_search_cut = world.is_search_cut || (diagnoses.empty() && search.is_exhausted());
    return diagnoses;
}

/// The mistakes that give a wrong copy: those in a step that uses it which give what the wrong copy does there.
std::vector<Diagnosis> mistakes_in_use(std::size_t copy, const Array& found, Diff::World& world)
{
    const Edits right{{copy, world.reference[copy].formula}};
    for (std::size_t step = copy + 1; step < world.reference.size(); ++step) {
        if (std::ranges::find(world.operands(step), copy) == world.operands(step).end())
            continue;
        const Array used = world.recompute(step).value;
        const Wrong at_copy{step, found, {}, {}};
        auto diagnoses = mistakes_that_give({step, used, Altered(world, at_copy, right).value(), {}}, world);
        if (!diagnoses.empty())
            return diagnoses;
    }
    return {};
}

} // namespace

namespace {

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

namespace {

std::vector<Diagnosis> explanations(const Diff& diff)
{
    const StepDiff* wrong = to_explain(diff);
    if (wrong == nullptr || wrong->step->formula.empty())
        return {};
    Diff::World& world = *diff.world;
    const std::size_t step = world.names.find(wrong->step->path).value();
    const Array* found = array_of(*wrong, diff);
    if (found == nullptr || found->shape != wrong->step->value.shape)
        return {};
    try {
        auto diagnoses = mistakes_that_give({step, *found, world.recompute(step).value, world.unknown_before(step),
                                             wrong->verdict != DiffVerdict::no_effect},
                                            world);
        return diagnoses.empty() && is_copy(*wrong->step) ? mistakes_in_use(step, *found, world) : diagnoses;
    } catch (const FormulaError&) {
        return {}; // the right numbers aren't known: an operand is missing, or of another shape
    }
}

} // namespace

namespace {

/// What explains the last array that differs, as if MINE had nothing else. So saving more arrays never loses a
/// diagnosis.
std::vector<Diagnosis> explanations_of_result(const Diff& diff)
{
    const auto differs = [](const StepDiff& step) {
        return !step.passed() && step.step->value.type == ElementType::real;
    };
    const auto last = std::find_if(diff.steps.rbegin(), diff.steps.rend(), differs);
    if (last == diff.steps.rend() || &*last == diff.first_wrong() || array_of(*last, diff) == nullptr)
        return {};
    DiffOptions options;
    options.type = diff.type;
    diff.world->of_result =
        std::make_shared<Diff>(attn::diff(diff.world->run, {{last->step->path, *array_of(*last, diff)}}, options));
    return diagnose(*diff.world->of_result);
}

} // namespace

bool is_diagnosis_cut(const Diff& diff) { return diff.world->is_search_cut; }

std::vector<Diagnosis> diagnose(const Diff& diff)
{
    const BudgetScope budget;
    std::optional<std::vector<Diagnosis>>& known = diff.world->diagnoses;
    if (!known)
        known = explanations(diff);
    if (known->empty() && diff.first_wrong() != nullptr && diff.world->of_result == nullptr)
        known = explanations_of_result(diff);
    return *known;
}

} // namespace attn
