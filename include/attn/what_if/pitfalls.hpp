#pragma once

#include "attn/formula/evaluate.hpp"
#include "attn/recording.hpp"

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace attn {

/// A well-known mistake: one step, computed by another formula.
///
/// The right formula is matched with a pattern, in which each % stands for any text; in the mistaken one, $1 is what the
/// first % stood for, and so on. Besides,
///
/// | in the mistaken formula | stands for |
/// |-------------------------|------------|
/// | {head}                  | the number of the head, by the step's scope |
/// | {width}, {half}         | the size of the step's last axis, and half of it |
/// | {shape}                 | the sizes of all its axes |
/// | {rows}                  | the size of its last axis but one |
/// | {batch}, {each}         | `B, ` and `:, ` for a batch of B sequences, nothing for one sequence |
struct Pitfall {
    std::string_view id;       ///< "mask_inverted"
    std::string_view sentence; ///< what is done wrong
    std::string_view shows;    ///< how it shows, or why it doesn't
    std::string_view seen;     ///< where it was made or discussed in public, by name
    std::string_view link;     ///< to that
    std::string_view step;     ///< the name of the step that it breaks: "masked"
    std::string_view right;    ///< pattern of the step's formula
    std::string_view mistaken; ///< what is computed instead
};

/// All of them, in the order of the computation.
std::span<const Pitfall> pitfalls();

/// The pitfall of that id.
/// @throws Error where there is none; the message names those that sound like it
const Pitfall& find_pitfall(std::string_view id);

/// Finds the earlier step that a name in a step's formula means; nullptr where there is none.
using StepOf = std::function<const Step*(std::string_view name)>;

/// The mistaken formula for a step; nothing where the pitfall is not about such a step.
///
/// The pattern is matched with the step's formula, and with the same where each other name of a step is replaced by the
/// step's path: "norm1.output @ weights" for "x @ weights".
/// @param step  with its right formula and value, which decides the sizes
std::optional<std::string> mistaken_formula(const Pitfall& pitfall, const Step& step, const StepOf& step_of);

/// What a mistake makes of a step; nothing where it can't be made: an operand is missing, or its shape forbids it.
std::optional<Array> mistaken_value(const Pitfall& pitfall, const Step& step, const StepOf& step_of);

/// Makes one mistake, wherever it can be made, and listens otherwise.
///
/// A step is answered with what the mistaken formula gives for the operands of the run. Where that can't be computed or
/// has another shape (only a square mask can be transposed), the mistake can't be made and the step stays as it is.
class Mistaken final : public Listener {
public:
    explicit Mistaken(const Pitfall& pitfall) : pitfall_(&pitfall) {}

    /// The steps that were answered, by path.
    const std::vector<std::string>& broken() const { return broken_; }

private:
    std::optional<Array> on_step(const Step& step) override;

    const Pitfall* pitfall_;
    std::map<std::string, Step, std::less<>> earlier_;
    std::vector<std::string> broken_;
};

} // namespace attn
