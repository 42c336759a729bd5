#pragma once

#include "attn/core/recording.hpp"
#include "attn/formula/scope.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attn::formula {

/// How much of the arithmetic is written out.
struct ExplainOptions {
    std::size_t terms = 8;                  ///< written of a sum; the rest of a longer one is a subtotal
    std::size_t depth = 0;                  ///< how many levels of operands that are steps are explained, too
    std::optional<std::size_t> digits = {}; ///< significant digits; without it, all that a number needs
};

/// The arithmetic of one number, as a person writes it.
///
///     weights[0,2] = softmax(scores)
///       = exp(scores[0,2] - scores[0,1]) / (exp(scores[0,0] - scores[0,1]) + exp(scores[0,1] - scores[0,1]) + …)
///       = exp(1 - 4) / (exp(2 - 4) + exp(4 - 4) + exp(1 - 4))
///       = 0.04201006613406605
///       since scores[0,1] is the largest of 3
///
/// In the struct's texts, what only moves numbers (`.T`, slices, `concat`, …) is replaced by the one cell that it takes; a
/// choice (`where`, `max`, a gather) by the cell that it chose, with a note that says why; and a sum inside another sum
/// stands by its formula and index, and is explained below as a part.
/// @see docs/explain.md for all rules of the text
struct Explanation {
    /// One number of a step.
    struct Cell {
        const Step* step;
        std::size_t offset; ///< row-major
    };

    std::string cell;               ///< "scores[0,2]", or a part of a formula: "mean(x, axis=1)[0]"
    std::string formula;            ///< of the step; empty for an input and for a part
    std::string names;              ///< the arithmetic with names; empty for an input
    std::string numbers;            ///< the arithmetic with numbers; empty for an input
    std::string result;             ///< the number
    std::vector<std::string> notes; ///< "since mask[0,2] is false"
    std::vector<Explanation> parts; ///< explanations of what stands in it by name only
    std::vector<Cell> cells;        ///< of an explained step: the numbers that it follows from, each once, in order
    double value = 0;               ///< the result as a number
    double error = 0;               ///< how much another correct computation can differ
};

/// The cells that a text such as `scores[0,2]` names: one or several cells of a step.
struct ExplainedCells {
    const Step* step = nullptr;
    std::vector<std::size_t> offsets; ///< row-major, into the step's value
    bool is_single = false;           ///< there is an index for every axis: a number, not a row of one
};

/// Reads `scores[0,2]`, `scores[0]`, `scores[:,-1]`, `head.0.scores[...,0]` or, of a single number, `variance`. An
/// alias means its step.
/// @throws Error  where there is no such step (with those of similar names) or no such cell, or more than 1000 cells
ExplainedCells find_cells(const Recording& recording, std::string_view text);

/// Explains one number of a trace. Only the numbers that it follows from are computed.
/// @param recording  of a run
/// @param step       one of its steps
/// @param offset     of the cell, row-major
/// @throws Error        where the step's formula can't be computed there, or needs more than two million numbers
/// @throws BudgetError  where the budget doesn't suffice: the one that is being spent, or the usual one
Explanation explain(const Recording& recording, const Step& step, std::size_t offset,
                    const ExplainOptions& options = {});

/// The same for whoever explains many numbers.
/// @param names  of the recording
Explanation explain(const Recording& recording, const StepNames& names, const Step& step, std::size_t offset,
                    const ExplainOptions& options = {});

/// The lines of one number's explanation, each with its end.
std::string to_text(const Explanation& explanation);

/// Explains the cells that a text names: the lines of one number; of several numbers, the formula and a line for each.
///
///     scores[0] = queries @ keys.T
///       scores[0,0] = 1*0 + 0*1 + 2*1 = 2
///       scores[0,1] = 1*4 + 0*4 + 2*0 = 4
///
/// Parts and operands are not explained there.
/// @throws Error  as find_cells and explain do
std::string explain_text(const Recording& recording, std::string_view text, const ExplainOptions& options = {});

} // namespace attn::formula
