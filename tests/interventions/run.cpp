// A lesson's program with this in place of lessons/run.cpp replaces the lesson's steps instead of printing them, and says
// where the lesson goes on with something else than what replaced them:
//
//   interventions_NN            each computed step is zero in a run of its own, as by --ablate; then --round to each type;
//                               then every computed step is replaced in one run
//   interventions_NN --at-once  the last of these only, for lessons at the paper's size
//
// A run that went on with what replaced a step verifies but for that step. A lesson may refuse what replaced it, such as
// probabilities that are all zero: its steps until then verify. Exit code 1 where one doesn't.

#include "lessons/setup.hpp"

#include "attn/core/error.hpp"
#include "attn/formula/evaluate.hpp"
#include "attn/formula/scope.hpp"
#include "attn/formula/verify.hpp"

#include <cstdio>

namespace attn {
namespace {

/// Replaces one step by zeros.
class Zero final : public Listener {
public:
    explicit Zero(std::string path) : path_(std::move(path)) {}

private:
    std::optional<Array> on_step(const Step& step) override
    {
        if (step.path != path_)
            return std::nullopt;
        Array zeros = step.value;
        std::ranges::fill(zeros.values, 0.0);
        return zeros;
    }

    std::string path_;
};

/// Keeps every step as it was computed, before anything is replaced, also of runs that the lesson doesn't show. Where it
/// replaces them, it does so by the tanh of real numbers, and zero for whole ones.
class Computed final : public Listener {
public:
    explicit Computed(bool replaces) : replaces_(replaces) {}

    std::vector<Step> steps;
    std::size_t replaced = 0;

private:
    std::optional<Array> on_step(const Step& step) override
    {
        steps.push_back(step);
        if (!replaces_ || step.formula.empty() || step.value.type == ElementType::boolean)
            return std::nullopt;
        Array changed = step.value;
        for (double& value : changed.values)
            value = step.value.type == ElementType::real ? std::tanh(value) : 0;
        ++replaced;
        return changed;
    }

    bool replaces_;
};

/// How many steps fail to verify, but for one; says which.
std::size_t failures(const Recording& recording, const std::string& what, std::string_view but_for)
{
    std::size_t count = 0;
    for (const formula::StepCheck& check : formula::verify(recording).checks)
        if (!check.passed() && check.path != but_for) {
            std::printf("%s: %s\n", what.c_str(), check.message.c_str());
            ++count;
        }
    return count;
}

/// The same where every step was replaced: how many, as they were computed, don't follow from what the others are now.
std::size_t failures(const std::vector<Step>& computed, const Recording& replaced, const std::string& what)
{
    const formula::StepNames names(replaced);
    std::size_t count = 0;
    for (std::size_t i = 0; i < replaced.steps.size(); ++i) {
        const std::string& path = replaced.steps[i].path;
        const Step& step = *std::ranges::find(computed, path, &Step::path);
        if (step.formula.empty())
            continue;
        const formula::Evaluated again = formula::evaluate(step.formula, [&](std::string_view name) {
            const std::optional<std::size_t> found = names.resolve(i, name);
            return found ? &replaced.steps[*found].value : nullptr;
        });
        const auto follows = [&](std::size_t at) {
            const double found = step.value.values[at], expected = again.value.values[at];
            return found == expected || (std::isnan(found) && std::isnan(expected)) ||
                   std::abs(found - expected) <= 4 * again.error[at];
        };
        std::size_t at = 0;
        while (at < again.value.size() && follows(at))
            ++at;
        if (at < again.value.size()) {
            std::printf("%s: %s was computed as %.17g, but %s gives %.17g\n", what.c_str(), path.c_str(),
                        step.value.values[at], step.formula.c_str(), again.value.values[at]);
            ++count;
        }
    }
    return count;
}

} // namespace

int Lesson::run(std::string_view topic, int argc, char**, void (*teach)(Lesson&), std::vector<LessonFlag> own)
{
    LessonFlags flags;
    flags.console.quiet = true;
    flags.own = std::move(own);
    std::size_t refused = 0;
    const auto taught = [&](Listener* intervention) {
        Setup setup(topic, flags, intervention);
        Lesson lesson(setup);
        try {
            teach(lesson);
        } catch (const Error& error) {
            std::printf("refused: %s\n", error.what());
            ++refused;
        }
        return setup.recorder.recording();
    };

    Computed all(true);
    const Recording replaced = taught(&all);
    std::size_t wrong = failures(all.steps, replaced, "after all steps were replaced"), ablated = 0;
    if (argc == 1) {
        for (const Step& step : replaced.steps)
            if (!step.formula.empty()) {
                Zero zero(step.path);
                wrong += failures(taught(&zero), "after --ablate " + step.path, step.path);
                ++ablated;
            }
        for (const mistakes::Precision precision :
             {mistakes::Precision::float32, mistakes::Precision::bfloat16, mistakes::Precision::float16}) {
            flags.interventions.round = precision;
            Computed computed(false);
            const Recording rounded = taught(&computed);
            wrong += failures(computed.steps, rounded, "after --round " + std::string(name_of(precision)));
        }
    }
    std::printf("%s: %zu steps ablated, %zu replaced at once, %zu refused, %zu wrong after that\n",
                std::string(topic).c_str(), ablated, all.replaced, refused, wrong);
    return wrong == 0 ? 0 : 1;
}

} // namespace attn
