#pragma once

#include "attn/core/recording.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attn::show {

/// Which part of a trace is drawn, and how much of it is folded.
struct DataflowOptions {
    std::string scope = {};                ///< draws the steps in it only; empty for all
    std::vector<std::string> targets = {}; ///< draws only these steps and what they follow from; empty for all
    std::optional<std::size_t> depth = {}; ///< folds scopes inside more than so many others; chosen where not given
};

/// A box of a dataflow: a step, or several in one.
struct DataflowBox {
    enum class Kind {
        given, ///< a step without a formula, or one outside of what is drawn; or several that one folded box uses alone
        computed, ///< a step that follows from its formula
        folded    ///< all steps of a scope
    };

    Kind kind;
    std::string path;               ///< of the step or the folded scope; of several given steps the first one's
    std::vector<std::size_t> steps; ///< the numbers of its steps, in order
    std::size_t frame = 0;          ///< the innermost frame that it is in
};

/// A scope that is drawn as a frame.
struct DataflowFrame {
    std::string path;
    std::size_t parent = 0; ///< the frame around it; that of the first frame is itself
};

/// An arrow from a box to one that uses it.
struct DataflowEdge {
    std::size_t from, to;

    friend bool operator==(const DataflowEdge&, const DataflowEdge&) = default;
};

/// Which step of a trace uses which, as its formulas say. Refers to the recording, which outlives it.
struct Dataflow {
    const Recording* recording;
    std::string scope;                 ///< that is drawn; empty for all
    std::vector<DataflowFrame> frames; ///< the first one is the whole picture, and has no path
    std::vector<DataflowBox> boxes;    ///< in the order of their first steps
    std::vector<DataflowEdge> edges;   ///< each once, none from a box to itself
    std::size_t depth = 0;             ///< how many frames deep scopes are open

    const Step& step(const DataflowBox& box) const { return recording->steps[box.steps.back()]; }
};

/// How many boxes a graph has at most whose depth was chosen, unless there are more steps outside of all scopes.
inline constexpr std::size_t most_chosen_boxes = 60;

/// Reads from the formulas of a trace which step uses which.
///
/// A name in a formula means a step as for formula::verify(); an alias means its step. A step of which only a size is used,
/// as in `keys.shape[-1]`, gives no edge. A word and its number are one scope: `head.1`. Where no depth is given, it is the
/// largest one with at most `most_chosen_boxes` boxes; where there are more even with all scopes folded, scopes that differ
/// only in their number are folded together.
/// Values need no numbers, so the outline of a TraceReader is enough. Time and memory are linear in the trace.
/// @throws Error  where there is no such scope or target (with those of similar names), or no step is left
/// @throws FormulaError  where the formula of a step that is drawn can't be parsed, or a name in it means no earlier step
Dataflow dataflow_of(const Recording& recording, const DataflowOptions& options = {});

/// The step's name without the frame around it, and its axes: "scores[n=3, m=3]".
std::string label_of(const Dataflow& dataflow, const DataflowBox& box, std::size_t step);

/// One line: "12 boxes and 14 edges; folded at depth 1: self_attn (24 steps), norm1 (4 steps)".
std::string summary(const Dataflow& dataflow);

/// A description for readers who cannot see the picture: each box with those that it follows from.
std::string description(const Dataflow& dataflow);

} // namespace attn::show
