#pragma once

#include "attn/core/recording.hpp"
#include "attn/formula/evaluate.hpp"

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace attn::mistakes {

/// A step, computed by another formula.
///
/// `step` is the name of the step, or the last words of its path: "masked", "norm2.mean", with * for any one word. With
/// "grad." in front it is the gradient of such a step; without, no gradient is meant. The right formula is matched with
/// a pattern, in which each % stands for any text; in the wrong one, $1 is the text of the first %, and so on. A pattern
/// "~x" means the name x wherever the formula uses it, and the mistaken side is what it
/// means instead. Besides,
///
/// | in the mistaken formula | stands for |
/// |-------------------------|------------|
/// | {v}                     | one of the values of the form, each tried |
/// | {head}                  | the number of the head, by the step's scope |
/// | {heads.x}, {heads}      | x of all heads, `head.0.x, head.1.x`, and their number; not in the edit that is shown |
/// | {before}                | the number before that of the step's innermost numbered scope: 1 in rank.0.hop.2 |
/// | {width}, {half}         | the size of the step's last axis, and half of it |
/// | {shape}                 | the sizes of all its axes |
/// | {rows}                  | the size of its last axis but one |
/// | {batch}, {each}         | `B, ` and `:, ` for a batch of B sequences, nothing for one sequence |
/// | {first}, {last}         | the first and the last term of the right formula, a sum |
/// | mine                    | what the program that is judged has for this step |
/// | given                   | what the reference has for it: for a gradient that begins, and so has no formula |
struct StepEdit {
    std::string_view step;     ///< the name of the step that it breaks: "masked"
    std::string_view right;    ///< pattern of the step's formula
    std::string_view mistaken; ///< what is computed instead
};

/// One form of a mistake: edits that are made together, in all steps that they concern, or in some of these.
struct PitfallForm {
    std::vector<StepEdit> edits;
    std::vector<std::string_view> values = {""}; ///< for {v}
    bool is_risk = false;                        ///< to be named even where it has no effect on these numbers
    bool is_joint = false;                       ///< one edit without the others is not a mistake, or is another one
};

/// A well-known mistake, and the forms that it takes.
struct Pitfall {
    std::string_view id;       ///< "mask_inverted"
    std::string_view sentence; ///< what is done wrong
    std::string_view shows;    ///< its effect, or why there is none
    std::string_view seen;     ///< where it was made or discussed in public, by name
    std::string_view link;     ///< to that
    std::vector<PitfallForm>
        forms;               ///< the first edit of the first form is the one that is shown, and that --pitfall makes
    bool is_exhibit = true;  ///< shown in the lesson about mistakes
    bool is_general = false; ///< others are cases of it: looked for where none of them explains the numbers

    const StepEdit& shown() const { return forms.front().edits.front(); }
};

/// All pitfalls, in the order of the computation.
std::span<const Pitfall> pitfalls();

/// The pitfall of that id.
/// @throws Error where there is none; the message lists those with similar names
const Pitfall& find_pitfall(std::string_view id);

/// Finds the step that a name in a step's formula means, an earlier one if there is one; nullptr where there is none.
using StepOf = std::function<const Step*(std::string_view name)>;

/// The mistaken formula for a step; nothing where the edit is not about such a step.
///
/// The pattern is matched with the step's formula, and with the same where each other name of a step is replaced by the
/// step's path: "norm1.output @ weights" for "x @ weights".
/// @param value  for {v}
/// @param step   with its right formula and value, which decides the sizes
std::optional<std::string> mistaken_formula(const StepEdit& edit, std::string_view value, const Step& step,
                                            const StepOf& step_of);

/// The same for a pitfall's edit that is shown.
std::optional<std::string> mistaken_formula(const Pitfall& pitfall, const Step& step, const StepOf& step_of);

/// The wrong value of a step; nothing where the mistake can't be made: an operand is missing, or its shape forbids it.
std::optional<Array> mistaken_value(const Pitfall& pitfall, const Step& step, const StepOf& step_of);

/// A listener that makes one mistake, wherever it can be made.
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

} // namespace attn::mistakes
