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

/// A step, computed by another formula. src/mistakes/list/README.md says what stands for what in the formulas.
struct StepEdit {
    std::string_view step;     ///< the name of the step that it breaks, or the last words of its path: "masked"
    std::string_view right;    ///< pattern of the step's formula
    std::string_view mistaken; ///< what is computed instead
};

/// One form of a mistake: edits that are made together, in all steps that they concern, or in some of these.
struct PitfallForm {
    std::span<const StepEdit> edits;
    std::span<const std::string_view> values; ///< for {v}; an empty one where there are none
    bool needs_all_edits;                     ///< one edit without the others is not a mistake, or is another one
    bool is_named_without_effect;             ///< on the numbers at hand, since others would change
};

/// A well-known mistake, and the forms that it takes: a file of src/mistakes/list.
struct Pitfall {
    std::string_view id;                ///< "mask_inverted"
    std::string_view sentence;          ///< what is done wrong
    std::string_view why;               ///< what that changes, or why it changes nothing
    std::string_view seen;              ///< where it was made or discussed in public, by name
    std::string_view link;              ///< to that
    std::span<const PitfallForm> forms; ///< the first edit of the first one is shown, and is what --pitfall makes
    bool is_exhibit;                    ///< shown in the lesson about mistakes
    bool is_general;                    ///< others are cases of it: looked for where none of them explains the numbers

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
/// The value of a step is replaced by what the mistaken formula gives for the operands of the run. Where that can't be computed or
/// has another shape (only a square mask can be transposed), the mistake can't be made and the step stays as it is.
class Mistaken final : public Listener {
public:
    explicit Mistaken(const Pitfall& pitfall) : pitfall_(&pitfall) {}

    /// The steps that were replaced, by path.
    const std::vector<std::string>& broken() const { return broken_; }

private:
    std::optional<Array> on_step(const Step& step) override;

    const Pitfall* pitfall_;
    std::map<std::string, Step, std::less<>> earlier_;
    std::vector<std::string> broken_;
};

} // namespace attn::mistakes
