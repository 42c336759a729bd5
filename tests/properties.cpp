// What holds for every attention function at every size, and with every mask.

#include "by_hand.hpp"
#include "generators.hpp"
#include "test.hpp"

#include "attn/core/recorder.hpp"
#include "attn/formula/scope.hpp"
#include "attn/formula/verify.hpp"

#include <rapidcheck.h>

#include <map>
#include <set>

using namespace attn;
using namespace attn::formula;
using namespace attn::test;

namespace {

/// One attention, drawn at random: n and m differ as a rule, and any size may be one.
struct Drawn {
    Scoring scoring;
    Problem problem;
    OptionalMask mask;
    WeighingOptions options;
};

Drawn draw()
{
    const auto size = rc::gen::inRange<std::size_t>(1, 8);
    Drawn drawn;
    drawn.scoring = *rc::gen::elementOf(std::vector<Scoring>(std::begin(all_scorings), std::end(all_scorings)));
    const Sizes sizes{.n = *size, .m = *size, .d_q = *size, .d_k = *size, .d_v = *size, .d_hidden = *size};
    drawn.problem = random_problem(sizes, *rc::gen::arbitrary<std::uint32_t>());
    if (*rc::gen::arbitrary<bool>())
        drawn.mask = drawn.problem.mask;
    if (*rc::gen::arbitrary<bool>())
        drawn.options.normalization = Normalization::none;
    return drawn;
}

Recording recording_of(const Drawn& drawn)
{
    Recorder recorder;
    attend(drawn.scoring, drawn.problem, drawn.mask, drawn.options, Trace(recorder));
    return recorder.recording();
}

} // namespace

TEST_CASE("a traced attention is the untraced one, bit for bit", "[attention][property]")
{
    CHECK(rc::check("traced is untraced", [] {
        const Drawn drawn = draw();
        Recorder recorder;
        const Attention traced = attend(drawn.scoring, drawn.problem, drawn.mask, drawn.options, Trace(recorder));
        const Attention untraced = attend(drawn.scoring, drawn.problem, drawn.mask, drawn.options);
        RC_ASSERT(same_bits(traced.context, untraced.context));
        RC_ASSERT(same_bits(traced.weights, untraced.weights));
    }));
}

TEST_CASE("what an attention records as context and weights are its results", "[attention][property]")
{
    CHECK(rc::check("recorded is returned", [] {
        const Drawn drawn = draw();
        Recorder recorder;
        const Attention attention = attend(drawn.scoring, drawn.problem, drawn.mask, drawn.options, Trace(recorder));
        const Recording& recording = recorder.recording();
        const StepNames names(recording);
        RC_ASSERT(identical(recording.steps.at(names.find("weights").value()).value, to_array(attention.weights)));
        RC_ASSERT(identical(recording.steps.back().value, to_array(attention.context)));
    }));
}

TEST_CASE("within one call, a letter of an axis stands for one size", "[attention][property]")
{
    CHECK(rc::check("one letter, one size", [] {
        std::map<std::string, std::size_t> sizes;
        for (const Recording recording = recording_of(draw()); const Step& step : recording.steps) {
            RC_ASSERT(step.axes.size() == step.value.rank());
            for (std::size_t axis = 0; axis < step.axes.size(); ++axis) {
                const auto [letter, is_new] = sizes.emplace(step.axes[axis], step.value.shape[axis]);
                RC_ASSERT(letter->second == step.value.shape[axis]);
            }
        }
    }));
}

TEST_CASE("no two steps have one path", "[attention][property]")
{
    CHECK(rc::check("paths are unique", [] {
        std::set<std::string> paths;
        for (const Recording recording = recording_of(draw()); const Step& step : recording.steps)
            RC_ASSERT(paths.insert(step.path).second);
    }));
}

TEST_CASE("every step is finite, but for scores that a mask forbids", "[attention][property]")
{
    CHECK(rc::check("finite", [] {
        for (const Recording recording = recording_of(draw()); const Step& step : recording.steps)
            if (step.path != "masked")
                RC_ASSERT(std::ranges::all_of(step.value.values, [](double value) { return std::isfinite(value); }));
    }));
}

TEST_CASE("a row of weights is positive, and sums to one or, where nothing is allowed, to zero",
          "[attention][property]")
{
    CHECK(rc::check("rows sum to one", [] {
        Drawn drawn = draw();
        drawn.options.normalization = Normalization::softmax;
        const Matrix weights = attend(drawn.scoring, drawn.problem, drawn.mask, drawn.options).weights;
        for (std::size_t i = 0; i < weights.shape(0); ++i) {
            double total = 0;
            bool any = false;
            for (std::size_t j = 0; j < weights.shape(1); ++j) {
                const bool allowed = !drawn.mask || drawn.problem.mask(i, j);
                RC_ASSERT((weights(i, j) > 0) == allowed);
                RC_ASSERT(weights(i, j) >= 0);
                any = any || allowed;
                total += weights(i, j);
            }
            RC_ASSERT(std::abs(total - (any ? 1 : 0)) < 1e-14);
        }
    }));
}

TEST_CASE("every step follows from the steps before it by its formula", "[attention][property][formula]")
{
    CHECK(rc::check("formulas hold", [] {
        const Recording recording = recording_of(draw());
        const std::vector<Step>& steps = recording.steps;
        const Verification verification = verify(recording);
        for (const StepCheck& check : verification.checks)
            if (!check.passed())
                RC_FAIL(check.path + ": " + check.message);
        const auto with_formula = std::ranges::count_if(steps, [](const Step& step) { return !step.formula.empty(); });
        RC_ASSERT(verification.recomputed() == static_cast<std::size_t>(with_formula));
        RC_ASSERT(verification.recomputed() >= 2U);
    }));
}
