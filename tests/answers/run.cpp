// A lesson's program with this in place of lessons/run.cpp answers the lesson's steps instead of printing them, and says
// where the lesson goes on with something else than the answer:
//
//   answers_NN              each computed step is zero in a run of its own, as by --ablate; then --round to each type
//   answers_NN --at-once    every computed step is answered in one run, for lessons at the paper's size
//
// A run that went on with every answer verifies but for the step that was answered. Exit code 1 where one doesn't.

#include "lessons/setup.hpp"

#include "attn/formula/verify.hpp"

#include <cstdio>
#include <cstring>

namespace attn {
namespace {

/// Answers one step with zeros.
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

/// Answers every computed step with its tanh, or zero where it is a whole number, and keeps what was answered under a
/// formula that says so: where a run goes on with every answer, it verifies.
class AnswerAll final : public Listener {
public:
    Recording recording;
    std::size_t answered = 0;

private:
    std::optional<Array> on_step(const Step& step) override
    {
        Step kept = step;
        const bool is_answered = !step.formula.empty() && step.value.type != ElementType::boolean;
        if (is_answered) {
            const bool is_real = step.value.type == ElementType::real;
            kept.formula = (is_real ? "tanh(" : "0 * (") + step.formula + ")";
            for (double& value : kept.value.values)
                value = is_real ? std::tanh(value) : 0;
            ++answered;
        }
        recording.steps.push_back(kept);
        return is_answered ? std::optional(kept.value) : std::nullopt;
    }
    void on_alias(const Alias& alias) override { recording.aliases.push_back(alias); }
};

/// How many steps fail to verify, but for one; says which.
std::size_t failures(const Recording& recording, const std::string& what, std::string_view but_for = "",
                     double roundoff = double_roundoff)
{
    std::size_t count = 0;
    for (const StepCheck& check : verify(recording, roundoff).checks)
        if (!check.passed() && check.path != but_for) {
            std::printf("%s: %s\n", what.c_str(), check.message.c_str());
            ++count;
        }
    return count;
}

} // namespace

int Lesson::run(std::string_view topic, int argc, char** argv, void (*teach)(Lesson&), std::vector<LessonFlag> own)
{
    LessonFlags flags;
    flags.console.quiet = true;
    flags.own = std::move(own);
    const auto taught = [&](Listener* answer) {
        Setup setup(topic, flags, answer);
        Lesson lesson(setup);
        teach(lesson);
        return setup.recorder.recording();
    };

    std::size_t dropped = 0, answered = 0;
    if (argc > 1 && std::strcmp(argv[1], "--at-once") == 0) {
        AnswerAll all;
        taught(&all);
        answered = all.answered;
        dropped += failures(all.recording, "after answers to all steps");
    } else {
        for (const Step& step : taught(nullptr).steps) {
            if (step.formula.empty())
                continue;
            Zero zero(step.path);
            dropped += failures(taught(&zero), "after --ablate " + step.path, step.path);
            ++answered;
        }
        for (const Precision precision : {Precision::float32, Precision::bfloat16, Precision::float16}) {
            flags.answers.round = precision;
            dropped += failures(taught(nullptr), "after --round " + std::string(name_of(precision)), "",
                                roundoff_of(precision));
        }
    }
    std::printf("%s: %zu steps answered, %zu steps wrong after that\n", std::string(topic).c_str(), answered, dropped);
    return dropped == 0 ? 0 : 1;
}

} // namespace attn
