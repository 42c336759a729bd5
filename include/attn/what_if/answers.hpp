#pragma once

#include "attn/what_if/pitfalls.hpp"
#include "attn/recording.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attn {

/// A type of numbers that has fewer digits than double.
enum class Precision { float32, bfloat16, float16 };

/// The name of a precision as flags have it: "float32".
std::string_view name_of(Precision precision);

/// The nearest number that the type can hold, ties to even; beyond its largest, infinity.
double rounded_to(Precision precision, double number);

/// The largest relative error of one rounding to that type.
double roundoff_of(Precision precision);

/// What if the computation were done in fewer digits: every computed step is rounded.
///
/// Inputs stay: round what is given before it is given.
class RoundSteps final : public Listener {
public:
    explicit RoundSteps(Precision precision) : precision_(precision) {}

private:
    std::optional<Array> on_step(const Step& step) override;

    Precision precision_;
};

/// What if a step were zero: which head, which block matters.
class Ablate final : public Listener {
public:
    /// @param path  of a step, or the end of several: "head.3.context" in every layer
    explicit Ablate(std::string path) : path_(std::move(path)) {}

    /// The steps that were answered, by path.
    const std::vector<std::string>& ablated() const { return ablated_; }

private:
    std::optional<Array> on_step(const Step& step) override;

    std::string path_;
    std::vector<std::string> ablated_;
};

/// What a command line wants answered.
struct AnswerFlags {
    std::optional<Precision> round = {};
    std::vector<std::string> ablate = {};
    std::string pitfall = {};

    bool any() const { return round || !ablate.empty() || !pitfall.empty(); }
};

/// The listeners that flags ask for.
class Answers {
public:
    /// @throws Error where there is no such pitfall
    explicit Answers(const AnswerFlags& flags);

    /// The answering listeners, in front of those that only listen.
    std::vector<Listener*> before(std::vector<Listener*> others) const;

    /// @throws Error where an ablation or a pitfall found no step to answer
    void expect_heard() const;

private:
    std::vector<std::unique_ptr<Ablate>> ablations_;
    std::unique_ptr<Mistaken> mistaken_;
    std::unique_ptr<RoundSteps> rounding_;
    std::string pitfall_;
    std::vector<std::string> paths_;
};

} // namespace attn
