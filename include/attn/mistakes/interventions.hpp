#pragma once

#include "attn/core/number_type.hpp"
#include "attn/core/recording.hpp"
#include "attn/mistakes/pitfalls.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attn::mistakes {

/// A type of numbers that has fewer digits than double.
using Precision = NumberType;

/// A listener that rounds every computed step to fewer digits.
///
/// Inputs are not rounded: round them before they are given. Whole numbers and booleans are not rounded either.
class RoundSteps final : public Listener {
public:
    explicit RoundSteps(Precision precision) : precision_(precision) {}

private:
    std::optional<Array> on_step(const Step& step) override;

    Precision precision_;
};

/// A listener that sets a computed step to zero, which shows how much a head or a block matters.
class Ablate final : public Listener {
public:
    /// @param path  of a step, or the end of several: "head.3.context" in every layer
    explicit Ablate(std::string path) : path_(std::move(path)) {}

    /// The steps that were set to zero, by path.
    const std::vector<std::string>& ablated() const { return ablated_; }

    /// @throws Error where there was no such step; it says what the path is instead: an input, or another name of a step
    void expect_effect() const;

private:
    std::optional<Array> on_step(const Step& step) override;
    void on_alias(const Alias& alias) override;

    std::string path_;
    std::vector<std::string> ablated_;
    std::string other_; ///< what has that path and can't be ablated, and why
};

/// The interventions that a command line asks for: values of steps that are replaced.
struct InterventionFlags {
    std::optional<Precision> round = {};
    std::vector<std::string> ablate = {};
    std::string pitfall = {};

    bool any() const { return round || !ablate.empty() || !pitfall.empty(); }
};

/// The listeners that flags ask for.
class Interventions {
public:
    /// @throws Error where there is no such pitfall
    explicit Interventions(const InterventionFlags& flags);

    /// The listeners that replace values, in front of those that only listen.
    std::vector<Listener*> before(std::vector<Listener*> others) const;

    /// @throws Error where an ablation or a pitfall found no step to replace
    void expect_effect() const;

private:
    std::vector<std::unique_ptr<Ablate>> ablations_;
    std::unique_ptr<Mistaken> mistaken_;
    std::unique_ptr<RoundSteps> rounding_;
    std::string pitfall_;
};

} // namespace attn::mistakes
