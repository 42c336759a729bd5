#pragma once

#include "attn/recording.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attn {

/// How much of the arithmetic is written.
struct ExplainOptions {
    std::size_t terms = 8;                  ///< of a sum; the rest of a longer one is a subtotal
    std::size_t depth = 0;                  ///< how far operands that are steps themselves are explained, too
    std::optional<std::size_t> digits = {}; ///< significant ones; all that a number needs unless given
};

/// The arithmetic of one number, as a person writes it.
///
///     weights[0,2] = softmax(scores)
///       = exp(scores[0,2] - scores[0,1]) / (exp(scores[0,0] - scores[0,1]) + exp(scores[0,1] - scores[0,1]) + …)
///       = exp(1 - 4) / (exp(2 - 4) + exp(4 - 4) + exp(1 - 4))
///       = 0.04201006613406605
///       since scores[0,1] is the largest of 3
///
/// The rules of the text, which are all there are:
///
/// Lines. The cell and its formula; the arithmetic with the names of its operands; the same with their numbers; the
/// result; then why, a line a reason. The line of names is left out where it is the formula's text, the line of
/// numbers or the result; the line of numbers where it is the result. An input has its number, and the line `an input:
/// it has no formula`. Where the trace has another number than its formula gives, by more than verify() allows, the
/// result is what the formula gives, and the last reason is the line `but the trace has 5`.
///
/// Cells. A step stands by the name that the formula has for it, and the index of the one cell that is taken:
/// `keys[2,0]`, a single number without brackets. What only moves numbers is gone: `.T`, slices, `concat`, `repeat`,
/// `reshape`, `permute`, `interleave` and `diag` end at the cell that they take, or at 0 off the diagonal.
/// `x.shape[1]` is written so beside the names, and is its value beside the numbers. `arange` is the number at its
/// place.
///
/// Operators. `*` and `**` have no spaces around them, `+ - / < <= > >= == &` one on each side. Parentheses stand
/// where the formula language needs them to read the same tree: around a left operand that binds looser, around a
/// right one that doesn't bind tighter, around both of a comparison where they are comparisons, around all but a
/// number, a name or a call beside `**`, around the operand of `-x` where it is no power and needs an operator. A
/// negative number, or a `-x`, is in parentheses unless a line or a parenthesis begins with it; to the left of `**` it
/// always is. A function is `exp(…)`, `outer` a product.
///
/// Sums. `@` and `sum` are their terms in order, `a*b + c*d`; `mean` is `(a + b + c) / 3`; a single term stands
/// without more, and of none there is 0. Of more than `terms` terms the largest by size stand, NaN first, then
/// infinities, the earlier one of two equals, all in their order; behind them `+ (504 other terms)`, or `+ (1 other
/// term)`, beside the names, and their sum from the left beside the numbers.
///
/// Softmax is `exp(x - m) / (exp(a - m) + exp(b - m) + …)` with the largest cell for m, and 0 where that is -inf.
///
/// Choices. `where` is the branch that it takes, `max` and `min` the cell that they take, the first of equals or of
/// NaNs (of nothing, -inf and inf), and a gather the cell of its row. Each gives a reason: `since mask[0,2] is false`;
/// `since s[1] is the largest of 3`, `the smallest of 3`, or for a NaN `is no number`, and none for one of 1; `since
/// ids[0] is 3`, unless that is written as a number; `since diag(v) is 0 off the diagonal`; and for a softmax that is
/// 0 `since s[0], the largest, is -inf`. Reasons stand in the order in which their cells are written with names, those
/// of reasons behind them, each once, no more than `terms`.
///
/// Parts. A `@`, `sum` or `mean` of two terms or more, or a softmax of two, stands as a part of the formula wherever
/// it is in a term of another, in a softmax, or in a reason: with its formula and index beside the names, `mean(x,
/// axis=1)[0]`, `(x @ w)[0,3]`, and as its number beside the numbers. Behind the reasons it is explained in its turn,
/// indented by two: `where mean(x, axis=1)[0]`, and its lines. With a depth, operands that are steps with a formula
/// follow so, too, by their paths: `where scores[0,1] = queries @ keys.T`. All these follow in the order in which they
/// are written, no more than `terms` under one number and a thousand in a text: of a part of one step's formula the
/// first cell only, of a step each cell once.
///
/// Numbers. Each is the shortest text that reads back, exact_text(), so that the line, evaluated again, gives the
/// recorded number but for rounding; with `digits`, that of the number rounded to so many significant digits. NaN is
/// `nan`. A boolean is `true` or `false` as a result, alone and beside `&`; in other arithmetic it is 1 or 0.
struct Explanation {
    std::string cell;               ///< "scores[0,2]", or a part of a formula: "mean(x, axis=1)[0]"
    std::string formula;            ///< of the step; empty for an input and for a part
    std::string names;              ///< the arithmetic with names; empty for an input
    std::string numbers;            ///< the arithmetic with numbers; empty for an input
    std::string result;             ///< the number
    std::vector<std::string> notes; ///< "since mask[0,2] is false"
    std::vector<Explanation> parts; ///< what stands by its name only
    double value = 0;               ///< the result as a number
    double error = 0;               ///< how far another right computation may be away
};

/// What a text such as `scores[0,2]` asks for: a step, and one cell of it or several.
struct ExplainedCells {
    const Step* step = nullptr;
    std::vector<std::size_t> offsets; ///< row-major, into the step's value
    bool is_single = false;           ///< an index for every axis: one number rather than a row of one
};

/// Reads `scores[0,2]`, `scores[0]`, `scores[:,-1]`, `head.0.scores[...,0]` or, of a single number, `variance`.
/// @throws Error  where there is no such step (with those that are called nearly so) or no such cell, or there are more
///                than 1000 of them
ExplainedCells find_cells(const Recording& recording, std::string_view text);

/// Explains one number of a trace, at the cost of the numbers that it follows from.
/// @param recording  of a run
/// @param step       one of its steps
/// @param offset     of the cell, row-major
/// @throws Error  where the step's formula can't be computed there, or takes more than two million numbers
Explanation explain(const Recording& recording, const Step& step, std::size_t offset,
                    const ExplainOptions& options = {});

/// The lines of one number's explanation, each with its end.
std::string to_text(const Explanation& explanation);

/// Explains what a text asks for: the lines of one number, or, for several, the formula and a line for each.
///
///     scores[0] = queries @ keys.T
///       scores[0,0] = 1*0 + 0*1 + 2*1 = 2
///       scores[0,1] = 1*4 + 0*4 + 2*0 = 4
///
/// A line of a row has the numbers, or the names where the numbers are the result alone, then the result, and in
/// parentheses the reasons, with `; ` between them. Parts and operands are not explained there.
/// @throws Error  as find_cells and explain do
std::string explain_text(const Recording& recording, std::string_view text, const ExplainOptions& options = {});

} // namespace attn
