#pragma once

#include "test.hpp"

#include "attn/core/recorder.hpp"
#include "attn/core/trace.hpp"
#include "attn/formula/verify.hpp"
#include "attn/mistakes/interventions.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

/// Whether a run goes on with what a listener replaces a step by: then nothing but the replaced step fails to verify.
namespace attn::test {

/// Replaces one step, number by number.
class ReplaceStep final : public Listener {
public:
    ReplaceStep(std::string path, std::function<double(double)> change)
        : path_(std::move(path)), change_(std::move(change))
    {
    }

private:
    std::optional<Array> on_step(const Step& step) override
    {
        if (step.path != path_)
            return std::nullopt;
        Array changed = step.value;
        std::ranges::transform(changed.values, changed.values.begin(), change_);
        return changed;
    }

    std::string path_;
    std::function<double(double)> change_;
};

/// The messages of all steps that fail to verify, but for those that were replaced.
inline std::vector<std::string> wrong_but_for(const Recording& recording, const std::vector<std::string>& replaced,
                                              double roundoff = formula::double_roundoff)
{
    std::vector<std::string> messages;
    for (const formula::StepCheck& check : formula::verify(recording, roundoff).checks)
        if (!check.passed() && std::ranges::find(replaced, check.path) == replaced.end())
            messages.push_back(check.message);
    return messages;
}

/// Replaces each step and each input of a run in turn, and checks that the rest of the run follows from what it is now.
/// @param run  takes a Trace; does the same every time
/// @return how many times something was replaced
template <class Run>
std::size_t expect_replacements_used(const Run& run)
{
    Recorder right;
    run(Trace(right));
    std::size_t replacements = 0;
    for (const Step& step : right.steps())
        for (const double factor : {0.0, 0.5}) {
            if (step.value.type != ElementType::real && (factor != 0 || step.formula.empty()))
                continue; // half of a whole number may be none, and zero may be no length
            CAPTURE(step.path, factor);
            ReplaceStep replace(step.path, [factor](double value) { return factor == 0 ? 0 : factor * value; });
            Recorder recorder;
            Listeners listeners({&replace, &recorder});
            run(Trace(listeners));
            CHECK(wrong_but_for(recorder.recording(), {step.path}) == std::vector<std::string>{});
            ++replacements;
        }
    return replacements;
}

/// Rounds all real numbers of a run, inputs too.
class RoundAll final : public Listener {
public:
    explicit RoundAll(mistakes::Precision precision) : precision_(precision) {}

private:
    std::optional<Array> on_step(const Step& step) override
    {
        Array rounded = step.value;
        for (double& value : rounded.values)
            value = step.value.type == ElementType::real ? rounded_to(precision_, value) : value;
        return rounded;
    }

    mistakes::Precision precision_;
};

inline constexpr mistakes::Precision all_precisions[] = {mistakes::Precision::float32, mistakes::Precision::bfloat16,
                                                         mistakes::Precision::float16};

/// Rounds every step and input of a run, and checks that each step follows from the rounded ones but for one rounding.
template <class Run>
void expect_roundings_used(const Run& run)
{
    for (const mistakes::Precision precision : all_precisions) {
        CAPTURE(name_of(precision));
        RoundAll rounding(precision);
        Recorder recorder;
        Listeners listeners({&rounding, &recorder});
        run(Trace(listeners));
        CHECK(wrong_but_for(recorder.recording(), {}, roundoff_of(precision)) == std::vector<std::string>{});
    }
}

} // namespace attn::test
