// Where MINE first differs from a reference: the type that it computed in, a verdict per array, what is missing.

#include "attn/diff/diff.hpp"

#include "judge.hpp"
#include "read.hpp"
#include "type_evidence.hpp"
#include "world.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace attn {
namespace {

using MyArraysPtr = std::shared_ptr<const MyArrays>;

/// @return whether each claimed array is bit by bit the reference's
std::vector<bool> see_type(Diff& diff, const DiffOptions& options)
{
    const Diff::World& world = *diff.world;
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
    for (const Claim& claim : claims)
        if (claim.array != nullptr)
            evidence.add(*claim.array, world.reference[claim.step].value);
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
        world.known[i].own = &rounded;
        world.known[i].is_same = same_numbers(rounded, step.value);
    }
}

/// What became of every array.
/// @param inputs  the type that inputs had been rounded to before MINE computed
Diff judged(const Recording& reference, const MyArraysPtr& mine, const DiffOptions& options,
            NumberType inputs = NumberType::float64)
{
    Diff result;
    result.world = std::make_shared<Diff::World>(reference, mine, options);
    Diff::World& world = *result.world;
    const std::vector<Claim>& claims = world.claims.claims;
    const std::vector<bool> is_same = see_type(result, options);
    world.type = result.type;
    if (inputs != NumberType::float64)
        round_inputs(world, inputs);

    Judge judge(result, options);
    for (std::size_t i = 0; i < claims.size(); ++i)
        judge.judge(claims[i], is_same[i]);
    for (std::size_t i = 0; i < world.reference.size(); ++i)
        if (!world.known[i].is_claimed)
            result.missing.push_back(world.reference[i].path);
    result.extra = world.claims.extra;
    result.missing_fails = !result.missing.empty() && (options.all || claims.empty());
    result.extra_fails = !result.extra.empty() && (options.all || options.table == nullptr);
    return result;
}

/// True where a step is off as if by roundings: many numbers, each by little.
bool is_like_rounding(const StepDiff& step)
{
    constexpr double nearly_parallel = 0.999;
    const Distance& distance = step.distance;
    return step.verdict == DiffVerdict::bug && distance.nans == 0 && distance.infinities == 0 &&
           distance.cosine > nearly_parallel && distance.beyond > step.step->value.size() / 4;
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

/// The same where MINE does not have its inputs: they were rounded where that explains every digit.
std::optional<Diff> with_rounded_inputs(const Diff& diff, const Recording& reference, const MyArraysPtr& mine,
                                        const DiffOptions& options)
{
    for (const NumberType type : {NumberType::float32, NumberType::float16, NumberType::bfloat16}) {
        if (roundoff_of(type) <= roundoff_of(diff.type))
            continue;
        Diff again = judged(reference, mine, options, type);
        if (again.first_different() != nullptr)
            continue;
        again.hint = text_about_inputs("the inputs that MINE does not have were rounded", type, diff.type);
        return again;
    }
    return std::nullopt;
}

/// A line where everything would be noise in a coarser type.
std::string hint_at_coarser_type(const Diff& diff, const Recording& reference, const MyArraysPtr& mine,
                                 const DiffOptions& options)
{
    for (const NumberType type : diff.world->coarser) {
        DiffOptions coarser = options;
        coarser.type = type;
        if (judged(reference, mine, coarser).count(DiffVerdict::bug) == 0)
            return fmt::format("in {0} this would be noise: if the program {1} in {0}{2}, say so with --type {0}",
                               name_of(type), diff.type == NumberType::float64 ? "computes" : "multiplies",
                               type == NumberType::float16 ? " or TF32" : "");
    }
    return "";
}

Diff diff_of(const Recording& reference, const MyArraysPtr& mine, const DiffOptions& options)
{
    Diff result = judged(reference, mine, options);
    if (const std::string hint = hint_at_rounded_inputs(result); !hint.empty())
        result.hint = hint;
    const StepDiff* wrong = result.first_wrong();
    if (wrong == nullptr || !is_like_rounding(*wrong) || options.type || options.atol || options.rtol)
        return result;
    if (auto again = with_rounded_inputs(result, reference, mine, options))
        return std::move(*again);
    if (result.hint.empty())
        result.hint = hint_at_coarser_type(result, reference, mine, options);
    return result;
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
    return !missing_fails && !extra_fails &&
           std::ranges::all_of(steps, [](const StepDiff& step) { return step.passed(); });
}

Diff diff(const Recording& reference, NamedArrays mine, const DiffOptions& options)
{
    return diff_of(reference, std::make_shared<MyArrays>(reference, std::move(mine)), options);
}

Diff diff(const Recording& reference, const std::filesystem::path& mine, const DiffOptions& options)
{
    const auto arrays = std::make_shared<MyArrays>(reference, NamedArrays{});
    read_each_array(mine, [&](const std::string& name, Array array) { arrays->add(name, std::move(array)); });
    return diff_of(reference, arrays, options);
}

} // namespace attn
