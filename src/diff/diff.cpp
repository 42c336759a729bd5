// Where MINE first differs from a reference: the type that it computed in, a verdict per array, what is missing.

#include "attn/diff/diff.hpp"

#include "attn/core/budget.hpp"
#include "blame.hpp"
#include "judge.hpp"
#include "ledger.hpp"
#include "read.hpp"
#include "type_evidence.hpp"
#include "compare.hpp"
#include "diagnose.hpp"
#include "softmax.hpp"
#include "matching.hpp"
#include "name_rules.hpp"
#include "name_vocabulary.hpp"
#include "world.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace attn::diff {
namespace {

using MyArraysPtr = std::shared_ptr<const MyArrays>;

/// @return whether each claimed array is bit by bit the reference's
std::vector<bool> see_type(Diff& diff, const DiffOptions& options)
{
    Diff::World& world = *diff.world;
    const std::vector<Claim>& claims = world.claims.claims;
    std::vector<bool> is_same;
    for (const Claim& claim : claims)
        is_same.push_back(claim.array != nullptr && same_numbers(*claim.array, world.reference[claim.step].value));
    if (std::ranges::find(is_same, false) == is_same.end())
        return is_same;
    diff.type = options.type.value_or(NumberType::float64);
    if (options.type)
        return is_same;
    TypeEvidence evidence;
    for (const Claim& claim : claims) {
        const Step& step = world.reference[claim.step];
        const auto is_input = [&](std::size_t operand) { return world.reference[operand].formula.empty(); };
        const bool is_given = step.formula.empty() ||
                              (is_selection(step.formula) && std::ranges::all_of(world.operands(claim.step), is_input));
        if (claim.array != nullptr && !is_given)
            evidence.add(*claim.array, step.value);
    }
    diff.type = evidence.type();
    diff.hint = evidence.hint();
    diff.world->coarser = evidence.coarser_types();
    return is_same;
}

/// Gives MINE those inputs that it does not have, rounded to a type.
void round_inputs(Diff::World& world, NumberType type)
{
    world.has_rounded_inputs = true;
    std::vector<bool> is_claimed(world.reference.size(), false);
    for (const Claim& claim : world.claims.claims)
        is_claimed[claim.step] = true;
    for (std::size_t i = 0; i < world.reference.size(); ++i) {
        const Step& step = world.reference[i];
        if (is_claimed[i] || !step.formula.empty() || step.value.type != ElementType::real)
            continue;
        Array& rounded = world.kept.emplace_back(step.value);
        for (double& value : rounded.values)
            value = rounded_to(type, value);
        world.steps.set(i, &rounded, !same_numbers(rounded, step.value));
    }
}

/// True where some query of the reference can attend to nothing.
bool has_empty_rows(const Diff::World& world)
{
    return std::ranges::any_of(world.reference,
                               [](const Step& step) { return is_softmax(step) && has_empty_row(step.value); });
}

/// True where MINE has NaN that the reference hasn't, and some query of the reference can attend to nothing.
bool has_nan_rows(const Diff::World& world)
{
    const auto is_nan = [](double number) { return std::isnan(number); };
    return std::ranges::any_of(world.claims.claims,
                               [&](const Claim& claim) {
                                   return claim.array != nullptr && std::ranges::any_of(claim.array->values, is_nan) &&
                                          std::ranges::none_of(world.reference[claim.step].value.values, is_nan);
                               }) &&
           has_empty_rows(world);
}

/// What MINE's numbers can be, besides the reference's in the type that they seem to have.
struct Assumption {
    bool has_even_rows = false;              ///< of queries that can attend to nothing; NaN is found out
    NumberType inputs = NumberType::float64; ///< that the inputs which MINE does not have were rounded to
    std::optional<NumberType> type = {};     ///< that MINE computed in
};

/// What became of every array.
/// @param claims  which steps they are
Diff judged(const MyArraysPtr& mine, DiffOptions options, Claims claims, const Assumption& assumption = {})
{
    Diff result;
    result.world = std::make_shared<Diff::World>(mine, std::move(claims));
    Diff::World& world = *result.world;
    world.is_everywhere = options.everywhere;
    if (assumption.type)
        options.type = assumption.type;
    const std::vector<bool> is_same = see_type(result, options);
    world.type = result.type;
    if (has_nan_rows(world)) {
        world.expect_nan_rows();
        result.hint =
            "MINE has NaN, and in the reference some queries can attend to nothing, which gives zeros there: NaN that "
            "follows from these is taken for right";
    } else if (!mine->even_rows().empty()) {
        result.hint =
            "in the reference some queries can attend to nothing, which gives zeros there: even weights, and what "
            "follows from these, are taken for right";
    }
    if (assumption.inputs != NumberType::float64)
        round_inputs(world, assumption.inputs);

    const bool is_trial = assumption.inputs != NumberType::float64 || assumption.type;
    judge(result, options, is_same, is_trial);
    for (std::size_t i = 0; i < world.reference.size(); ++i)
        if (!world.known[i].is_claimed)
            result.missing.push_back(world.reference[i].path);
    result.extra = world.claims.extra;
    result.matched = world.claims.found;
    result.missing_fails = options.all && !result.missing.empty();
    result.extra_fails = options.all && !result.extra.empty();
    return result;
}

Claims claims_within_budget(const MyArraysPtr& mine, const DiffOptions& options, const Hypothesis& hypothesis)
{
    try {
        return claims_of(mine->reference(), mine->views(), mine->graph(), options, hypothesis);
    } catch (const BudgetError&) {
        Claims none;
        none.is_cut = true;
        return none;
    }
}

/// The same where it counts only if all was judged.
/// @throws BudgetError where the budget does not suffice
Diff judged_again(const MyArraysPtr& mine, const DiffOptions& options, Claims claims, const Assumption& assumption)
{
    Diff again = judged(mine, options, std::move(claims), assumption);
    if (again.world->is_cut)
        throw BudgetError("not all was judged");
    return again;
}

/// The same where the arrays can be other steps.
Diff judged_again(const MyArraysPtr& mine, const DiffOptions& options, const Hypothesis& hypothesis,
                  const Assumption& assumption)
{
    return judged_again(mine, options, claims_within_budget(mine, options, hypothesis), assumption);
}

/// True where a wrong step of the right shape is off by little.
bool is_nearly_right(const StepDiff& step)
{
    constexpr double nearly_parallel = 0.999, little = 0.1;
    const Distance& distance = step.distance;
    return step.verdict == DiffVerdict::bug && distance.nans == 0 && distance.infinities == 0 && distance.beyond > 0 &&
           distance.cosine > nearly_parallel && distance.absolute <= little * largest_of(step.step->value);
}

/// True where many numbers of a step are off, as roundings make them. Those that float32 has are not rounded: zeros, as in
/// padding, or what is copied.
bool are_many_off(const StepDiff& step)
{
    const auto is_rounded = [](double number) { return !is_exactly(NumberType::float32, number); };
    const auto rounded = static_cast<std::size_t>(std::ranges::count_if(step.step->value.values, is_rounded));
    return 4 * step.distance.beyond >= rounded;
}

/// True where float32 can have made the first wrong step: it moves many numbers. Of numbers with few digits it has most
/// products and sums exactly, and so all but few of the step's to double's last digits.
bool can_be_float32(const Diff& diff)
{
    constexpr double last_digits = 16;
    const StepDiff& wrong = *diff.first_wrong();
    if (are_many_off(wrong))
        return true;
    const Array& right = wrong.step->value;
    const Array* found = diff.world->claims.claims[static_cast<std::size_t>(&wrong - diff.steps.data())].array;
    if (found == nullptr || found->shape != right.shape)
        return false;
    const double least = last_digits * roundoff_of(NumberType::float64) * largest_of(right);
    std::size_t off = 0;
    for (std::size_t i = 0; i < right.size(); ++i)
        off += std::abs(found->values[i] - right.values[i]) > least ? 1 : 0;
    return off <= wrong.distance.beyond;
}

std::string text_about_inputs(const std::string& inputs, NumberType type, NumberType own)
{
    return fmt::format(
        "{} to {}, and MINE is right for these in {}: give attn run the same {} numbers to compare every "
        "digit",
        inputs, name_of(type), name_of(own), name_of(type));
}

/// A line about inputs that MINE has in a shorter type than it computes in.
std::string hint_at_rounded_inputs(const Diff& diff)
{
    std::vector<std::string> names;
    NumberType type = NumberType::float64;
    for (const StepDiff& step : diff.steps)
        if (step.rounded_to != NumberType::float64) {
            names.push_back(step.mine);
            type = step.rounded_to;
        }
    constexpr std::size_t most = 4;
    if (names.empty() || !diff.passed())
        return "";
    const std::size_t left = names.size() > most ? names.size() - most : 0;
    names.resize(names.size() - left);
    return text_about_inputs(fmt::format("{}{} {} the reference's rounded", fmt::join(names, ", "),
                                         left > 0 ? fmt::format(" and {} more", left) : "",
                                         names.size() + left == 1 ? "is" : "are"),
                             type, diff.type);
}

/// True where the first wrong step is off by little, and nobody says which roundings are allowed.
bool can_be_rounding(const Diff& diff, const DiffOptions& options)
{
    const StepDiff* wrong = diff.first_wrong();
    return wrong != nullptr && is_nearly_right(*wrong) && !options.type && !options.atol && !options.rtol;
}

/// True where weights that are even, and not zero, can be what is wrong.
bool can_have_even_rows(const Diff& diff)
{
    return (diff.first_wrong() != nullptr || !diff.extra.empty()) && has_empty_rows(*diff.world) &&
           !has_nan_rows(*diff.world);
}

/// True where an assumption can explain what is wrong.
bool can_explain(const Assumption& assumption, const Diff& diff, const DiffOptions& options)
{
    if (assumption.has_even_rows)
        return can_have_even_rows(diff);
    if (!can_be_rounding(diff, options))
        return false;
    const bool is_double = diff.type == NumberType::float64, is_float32 = can_be_float32(diff);
    return assumption.type ? is_double && is_float32
                           : (is_double || is_float32) && roundoff_of(assumption.inputs) > roundoff_of(diff.type);
}

/// True where an assumption explains all; of even weights, where it explains what is wrong first.
bool explains(const Assumption& assumption, const Diff& again, const Diff& diff)
{
    if (!assumption.has_even_rows)
        return again.first_different() == nullptr;
    const StepDiff* still = again.first_wrong();
    if (diff.first_wrong() == nullptr) // what is even was not found
        return still == nullptr && again.steps.size() > diff.steps.size();
    const bool is_later = still == nullptr || still - again.steps.data() > diff.first_wrong() - diff.steps.data();
    return is_later && again.count(DiffVerdict::bug) <= diff.count(DiffVerdict::bug);
}

/// What explains MINE's numbers, if anything: even weights; inputs that were rounded; or, of float64 numbers, that they were
/// computed in float32, as by NumPy 2 after np.sqrt.
std::optional<Assumption> explained(Diff& diff, const DiffOptions& options, const Hypothesis& hypothesis)
{
    for (const Assumption& assumption :
         {Assumption{.has_even_rows = true}, Assumption{.inputs = NumberType::float32},
          Assumption{.inputs = NumberType::float16}, Assumption{.inputs = NumberType::bfloat16},
          Assumption{.type = NumberType::float32}}) {
        if (!can_explain(assumption, diff, options))
            continue;
        const MyArraysPtr& mine = diff.world->mine; // what follows from even rows is found by its numbers, too
        Diff again = assumption.has_even_rows ? judged_again(MyArrays::beside_even_rows(mine), options, hypothesis, {})
                                              : judged_again(mine, options, diff.world->claims, assumption);
        if (!explains(assumption, again, diff))
            continue;
        if (assumption.type)
            again.hint =
                "MINE's numbers are float64, and right to the digits of float32: compared as float32; --type float64 "
                "compares every digit";
        else if (assumption.inputs != NumberType::float64)
            again.hint =
                text_about_inputs("the inputs that MINE does not have were rounded", assumption.inputs, diff.type);
        diff = std::move(again);
        return assumption;
    }
    return std::nullopt;
}

/// A line where everything would be noise in a coarser type, and nothing else explains it.
std::string hint_at_coarser_type(const Diff& diff, const DiffOptions& options, Assumption assumption)
{
    for (const NumberType type : diff.world->coarser) {
        assumption.type = type;
        if (judged_again(diff.world->mine, options, diff.world->claims, assumption).count(DiffVerdict::bug) == 0 &&
            diagnoses_of_first(diff).empty())
            return fmt::format("in {0} this would be noise: if the program {1} in {0}{2}, say so with --type {0}",
                               name_of(type), diff.type == NumberType::float64 ? "computes" : "multiplies",
                               type == NumberType::float16 ? " or TF32" : "");
    }
    return "";
}

/// A line about an array that is not called a gradient and can be one.
std::string hint_at_gradient(const Diff& diff)
{
    for (const std::string& name : diff.extra)
        if (const Step* gradient = gradient_in_size_of(*diff.world, name))
            return fmt::format("{0} has as many numbers as {1}, which MINE does not have: --map {0}={1} compares them",
                               name, gradient->path);
    return "";
}

/// What MINE's arrays can be besides the reference's steps: where a known mistake explains what is surely wrong, the steps
/// as they are after it; else the steps that they fit best.
Hypothesis hypothesis_about(const Diff& diff, Hypothesis hypothesis)
{
    const auto& arrays = diff.world->mine->views();
    const auto is_tensor = [&](const std::string& name) {
        return arrays.find(name)->second->type == ElementType::real;
    };
    if (std::ranges::none_of(diff.extra, is_tensor))
        return hypothesis;
    if (diff.first_wrong() == nullptr && has_result(diff))
        return hypothesis; // what is right up to the result has no wrong step
    if (const std::vector<Diagnosis>& diagnoses = diagnoses_of_first(diff); !diagnoses.empty())
        hypothesis.mistaken = steps_after(diagnoses.front(), diff);
    else // what was computed from what tells that at once
        hypothesis.guesses = !diff.world->mine->graph().knows_reads();
    return hypothesis;
}

/// The step that follows at once from the one whose numbers an array has, if the first wrong step follows from that,
/// MINE does not have it, and the array is rather called so; empty where there is none.
std::string step_after(const Found& found, const Diff& diff)
{
    Diff::World& world = *diff.world;
    const auto step = world.names.find(filled(found.step, "h", "0"));
    if (!step || found.how != found_by_numbers)
        return "";
    const std::size_t words = words_in_common(found.mine, found.step);
    for (const std::string& path : diff.first_wrong()->through) {
        const std::size_t after = world.names.find(path).value();
        const auto& operands = world.operands(after);
        if (std::ranges::find(operands, *step) != operands.end() && words_in_common(found.mine, path) > words &&
            world.reference[after].value.shape == world.reference[*step].value.shape)
            return path;
    }
    return "";
}

/// The same where an array that was found by its numbers is used as the next step: scores that are not scaled have the
/// numbers of scores, and what MINE has after them follows as from scaled ones. So they are the first wrong step.
std::optional<Diff> with_used_steps(const Diff& diff, const DiffOptions& options, const Hypothesis& hypothesis,
                                    const Assumption& assumption)
{
    const StepDiff* wrong = diff.first_wrong();
    if (wrong == nullptr || wrong->through.empty())
        return std::nullopt;
    for (const Found& found : diff.matched) {
        const std::string after = step_after(found, diff);
        if (after.empty())
            continue;
        Hypothesis used = hypothesis;
        used.used_as.emplace(found.mine, after);
        Diff again = judged_again(diff.world->mine, options, used, assumption);
        const auto same = std::ranges::find(again.steps, wrong->mine, &StepDiff::mine);
        if (again.first_wrong() != nullptr && again.first_wrong()->mine.starts_with(found.mine) &&
            same != again.steps.end() && same->verdict != DiffVerdict::bug &&
            again.count(DiffVerdict::bug) <= diff.count(DiffVerdict::bug))
            return again;
    }
    return std::nullopt;
}

/// The steps that one follows from, at once or through steps that MINE does not have.
std::set<std::size_t> sources(Diff::World& world, std::size_t step)
{
    std::set<std::size_t> users = world.unknown_before(step), all;
    users.insert(step);
    for (const std::size_t user : users)
        all.insert(world.operands(user).begin(), world.operands(user).end());
    return all;
}

/// Arrays that only look like the step whose numbers they nearly have: what follows from that step is right in MINE.
std::set<std::string, std::less<>> look_alikes(const Diff& diff)
{
    Diff::World& world = *diff.world;
    const std::vector<Claim>& claims = world.claims.claims;
    std::map<std::size_t, std::string> suspects; // by step
    for (std::size_t i = 0; i < claims.size(); ++i) {
        const StepDiff& step = diff.steps[i];
        const bool is_finite = step.distance.nans == 0 && step.distance.infinities == 0; // NaN looks like nothing
        if (step.verdict == DiffVerdict::bug && !claims[i].found.empty() && is_finite)
            suspects.emplace(claims[i].step, claims[i].found);
    }
    std::set<std::string, std::less<>> names;
    for (std::size_t i = 0; i < claims.size(); ++i) {
        const DiffVerdict verdict = diff.steps[i].verdict;
        if (verdict != DiffVerdict::equal && verdict != DiffVerdict::noise)
            continue;
        const std::size_t right = world.names.find(world.reference[claims[i].step].formula).value_or(claims[i].step);
        const std::set<std::size_t> from = suspects.empty() ? std::set<std::size_t>{} : sources(world, right);
        for (const auto& [step, name] : suspects)
            if (from.contains(step))
                names.insert(name);
        if (claims[i].found.empty()) // MINE has that step, perhaps as an alias, and says so
            for (std::size_t k = 0; k < claims.size(); ++k)
                if (claims[k].step == right && !claims[k].found.empty() && !diff.steps[k].passed())
                    names.insert(claims[k].found);
    }
    return names;
}

/// What else explains the arrays than the reference's steps as they are.
Diff refined(Diff result, const DiffOptions& options, Hypothesis hypothesis)
{
    // Before all mistakes are tried.
    const std::optional<Assumption> explanation = explained(result, options, hypothesis);
    if (explanation && !explanation->has_even_rows)
        return result;
    const Assumption assumption = explanation.value_or(Assumption{});
    hypothesis = hypothesis_about(result, std::move(hypothesis));
    const std::string fault = result.world->claims.fault; // what a mistake explains is one, too
    if (hypothesis.guesses || !hypothesis.mistaken.empty())
        result = judged_again(result.world->mine, options, hypothesis, assumption);
    if (auto again = with_used_steps(result, options, hypothesis, assumption))
        result = std::move(*again);
    result.world->claims.fault = fault;
    if (const std::string hint = hint_at_rounded_inputs(result); !hint.empty())
        result.hint = hint;
    if (result.hint.empty() && result.passed())
        result.hint = hint_at_gradient(result);
    if (result.hint.empty() && can_be_rounding(result, options) && are_many_off(*result.first_wrong()))
        result.hint = hint_at_coarser_type(result, options, assumption);
    return result;
}

Diff diff_of(const MyArraysPtr& mine, const DiffOptions& options)
{
    constexpr double most = 0.95, half = 0.5;
    const BudgetShare all_but_what_is_said(most);
    Diff result = judged(mine, options, claims_within_budget(mine, options, {}));
    try {
        const BudgetShare share(half); // the rest is for the mistakes and for power
        Hypothesis hypothesis{.no_step = look_alikes(result)};
        if (!hypothesis.no_step.empty())
            result = judged_again(result.world->mine, options, hypothesis, {});
        return refined(result, options, std::move(hypothesis));
    } catch (const BudgetError&) { // what is known without
        result.world->is_search_cut = true;
        result.is_doubtful =
            result.first_different() != nullptr && (can_be_rounding(result, options) || can_have_even_rows(result));
        result.world->is_cut = result.world->is_cut || result.is_doubtful;
        return result;
    }
}

} // namespace

const StepDiff* Diff::first_different() const
{
    const auto found = std::ranges::find_if(steps, [](const StepDiff& step) { return !step.passed(); });
    return found == steps.end() ? nullptr : &*found;
}

const StepDiff* Diff::first_wrong() const
{
    const auto found = std::ranges::find_if(steps, [](const StepDiff& step) {
        return step.verdict == DiffVerdict::bug || step.verdict == DiffVerdict::layout;
    });
    return found == steps.end() ? nullptr : &*found;
}

const StepDiff* Diff::first_without_effect() const
{
    const auto found = std::ranges::find(steps, DiffVerdict::no_effect, &StepDiff::verdict);
    return found == steps.end() ? nullptr : &*found;
}

std::size_t Diff::count(DiffVerdict verdict) const
{
    return static_cast<std::size_t>(std::ranges::count(steps, verdict, &StepDiff::verdict));
}

bool Diff::passed() const
{
    return !missing_fails && !extra_fails && ledger.open.empty() &&
           std::ranges::all_of(steps, [](const StepDiff& step) { return step.passed(); });
}

Diff compare(const Recording& reference, files::NamedArrays mine, const DiffOptions& options)
{
    const BudgetScope budget;
    const auto arrays = std::make_shared<MyArrays>(reference, std::move(mine));
    arrays->describe({}, options.names);
    Diff result = diff_of(arrays, options);
    result.ledger = ledger_of(result, options);
    return result;
}

Diff compare(const Recording& reference, const std::filesystem::path& mine, const DiffOptions& options)
{
    const BudgetScope budget;
    const auto arrays = std::make_shared<MyArrays>(reference, files::NamedArrays{});
    read_each_array(mine, [&](const std::string& name, Array array) { arrays->add(name, std::move(array)); });
    arrays->describe(read_listing(mine), options.names);
    Diff result = diff_of(arrays, options);
    blame(result);
    result.ledger = ledger_of(result, options);
    return result;
}

} // namespace attn::diff
