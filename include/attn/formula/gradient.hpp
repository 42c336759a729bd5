#pragma once

#include "attn/core/recording.hpp"

#include <optional>
#include <string>
#include <vector>

/// Gradients of anything that was traced.
namespace attn::formula {

/// What the gradients are of, and where they begin.
struct GradientOptions {
    std::string of = {};            ///< the path of a step, or an alias; empty: `output`, else the last step
    std::optional<Array> seed = {}; ///< the gradient of `of` itself, its cotangent; nothing: ones
    bool inputs = true;             ///< the gradients of inputs, too, such as weights: they take half of the time
};

/// The number of the step that gradients are of.
/// @param of  as GradientOptions has it
/// @throws Error where there is no such step
std::size_t step_of_gradients(const Recording& recording, const std::string& of);

/// A trace without the gradients that it has, as lesson 14's, and without what follows from them.
Recording without_gradients(const Recording& recording);

/// Walks a trace backwards: the gradients of one step with respect to all that it follows from, as steps after those of
/// the trace.
///
/// The gradient of a step is the step `grad.PATH` with the step's shape and axes, and a formula in the language of the
/// others: `grad.scores = weights * (grad.weights - sum(grad.weights * weights, axis=-1, keepdims=True))`. Where several
/// others use a step, the contribution of each is a step, `grad.PATH.from.USER`, and their sum is `grad.PATH`. Where each
/// of them uses a slice, and the slices are all of one axis, `grad.PATH` is the concatenation of the slices' gradients. Steps
/// of whole numbers and booleans, and steps that `of` does not follow from, have no gradient.
///
/// `grad.OF` is an input, the seed. Without one it is ones, and the gradients are those of the sum of all its numbers.
/// Numbers are computed by evaluate(), and each alias of a step names its gradient, too.
/// @param recording  with formulas; it has no gradients yet, see without_gradients()
/// @return the steps and aliases of the recording, then the gradients, those of later steps first
/// @throws Error where the step or the seed does not fit the recording, or a formula can't be computed
/// @see Griewank and Walther 2008, Evaluating Derivatives, section 3.2: the reverse mode
Recording gradients(const Recording& recording, const GradientOptions& options = {});

/// One input's gradient beside what central differences give, both along one random direction.
struct GradientCheck {
    std::string input;         ///< its path
    double by_gradient = 0;    ///< the sum of the gradient's numbers times the direction's
    double by_differences = 0; ///< the derivative along the direction
    double error = 0;          ///< how far the differences can be off, as they show themselves

    /// True where both agree. False also where the differences don't settle: beside a corner, or where numbers overflow.
    bool agrees() const;
};

/// Checks the gradient of every input by central differences.
///
/// The trace is recomputed from its formulas with the input moved along a direction and against it, by steps that are
/// halved; the differences are extrapolated to a step of zero, and how they change says how far they can be off.
/// @param recording  as gradients() gives it
/// @param seed       of the directions
/// @throws Error where it has no gradients
/// @see Ridders 1982, Accurate computation of F'(x) and F'(x) F''(x)
std::vector<GradientCheck> check_gradients(const Recording& recording, unsigned seed = 1);

} // namespace attn::formula
