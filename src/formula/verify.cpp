#include "attn/formula/verify.hpp"

#include "agreement.hpp"

#include "attn/core/number_type.hpp"
#include "attn/formula/scope.hpp"

#include <algorithm>
#include <cstdio>

namespace attn::formula {
namespace {

std::string exactly(double number)
{
    char text[32];
    std::snprintf(text, sizeof text, "%.17g", number);
    return text;
}

void compare(const Step& step, const Evaluated& again, StepCheck& check)
{
    if (step.value.shape != again.value.shape) {
        check.verdict = StepCheck::Verdict::wrong_shape;
        check.message = step.path + " has the shape " + to_string(step.value.shape) + ", but " + step.formula +
                        " has " + to_string(again.value.shape);
        return;
    }
    check.verdict = StepCheck::Verdict::agrees;
    double worst = 1;
    for (std::size_t i = 0; i < step.value.size(); ++i) {
        const double off = excess(step.value.values[i], again.value.values[i], safety * again.error[i]);
        if (off <= worst)
            continue;
        worst = off;
        check.verdict = StepCheck::Verdict::differs;
        check.worst_index = index_at(i, step.value.shape);
        check.message = step.path + bracketed(check.worst_index, ", ") + " is " + exactly(step.value.values[i]) +
                        ", but " + step.formula + " gives " + exactly(again.value.values[i]);
    }
}

/// How the operations of a step round: by the type that the options of its module name, if they do.
ErrorModel rounding_of(const Step& step, double otherwise)
{
    NumberType type = NumberType::float64;
    const auto option = std::ranges::find(step.options, "type", &std::pair<std::string, std::string>::first);
    if (option != step.options.end())
        for (const NumberType shorter : {NumberType::float32, NumberType::float16, NumberType::bfloat16})
            type = name_of(shorter) == option->second ? shorter : type;
    const double roundoff = std::max(otherwise, roundoff_of(type));
    return {.roundoff = roundoff, .stored_roundoff = roundoff, .smallest = smallest_of(type)};
}

StepCheck check_step(const Recording& recording, const StepNames& names, std::size_t number, double program_roundoff)
{
    const Step& step = recording.steps[number];
    StepCheck check{step.path, StepCheck::Verdict::input, "", {}};
    if (step.formula.empty())
        return check;
    const Lookup lookup = [&](std::string_view name) {
        const std::optional<std::size_t> found = names.resolve(number, name);
        return found ? &recording.steps[*found].value : nullptr;
    };
    try {
        compare(step, evaluate(step.formula, lookup, rounding_of(step, program_roundoff)), check);
    } catch (const BudgetError& error) {
        throw BudgetError("step ", step.path.substr(0, 100), " ", error.what());
    } catch (const Error& error) {
        check.verdict = StepCheck::Verdict::unusable;
        check.message = step.path + " can't be recomputed: " + error.what();
    }
    return check;
}

template <class Predicate>
std::size_t count(const std::vector<StepCheck>& checks, const Predicate& predicate)
{
    return static_cast<std::size_t>(std::ranges::count_if(checks, predicate));
}

} // namespace

std::size_t Verification::inputs() const
{
    return count(checks, [](const StepCheck& check) { return check.verdict == StepCheck::Verdict::input; });
}

std::size_t Verification::recomputed() const
{
    const std::size_t unusable =
        count(checks, [](const StepCheck& check) { return check.verdict == StepCheck::Verdict::unusable; });
    return checks.size() - inputs() - unusable;
}

std::size_t Verification::failures() const
{
    return count(checks, [](const StepCheck& check) { return !check.passed(); });
}

Verification verify(const Recording& recording, double roundoff)
{
    const BudgetScope budget;
    Verification verification;
    const StepNames names(recording);
    for (std::size_t i = 0; i < recording.steps.size(); ++i)
        verification.checks.push_back(check_step(recording, names, i, roundoff));
    return verification;
}

} // namespace attn::formula
