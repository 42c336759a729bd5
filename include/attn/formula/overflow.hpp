#pragma once

#include "attn/core/recording.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace attn::formula {

class StepNames;

/// The first number of a run that is infinite or NaN although all that its formula names is finite.
struct Overflow {
    std::string path; ///< of its step
    Shape index;
    double number;
};

/// Looks for it while the steps are computed, and keeps none of their numbers.
class OverflowWatch final : public Listener {
public:
    /// A formula that says inf, as a mask's does, means an infinity: that is no overflow.
    /// @param meant  scopes whose steps are meant to overflow: "large.naive"
    std::optional<Overflow> found(const std::vector<std::string>& meant = {}) const;

private:
    struct Infinite {
        double number;
        Shape index;
    };

    std::optional<Array> on_step(const Step& step) override;
    void on_alias(const Alias& alias) override { outline_.aliases.push_back(alias); }
    bool follows_from_finite(const StepNames& names, std::size_t number) const;

    Recording outline_;                             ///< paths and formulas
    std::vector<std::optional<Infinite>> infinite_; ///< the first such number of each step
};

/// The same of steps that are recorded already.
std::optional<Overflow> find_overflow(const Recording& recording, const std::vector<std::string>& meant = {});

/// "scores[0,1] is inf, though all numbers that it follows from are finite: …"
std::string to_text(const Overflow& overflow);

} // namespace attn::formula
