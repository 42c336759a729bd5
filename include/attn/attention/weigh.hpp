#pragma once

#include "attn/tensor.hpp"
#include "attn/trace.hpp"

#include <optional>
#include <string_view>

namespace attn {

/// What attention gives, for all queries at once.
struct Attention {
    Matrix context; ///< (n, d_v): for each query, the values in the proportion of its weights
    Matrix weights; ///< (n, m): a row sums to one, or to zero where the mask leaves nothing
};

/// Whether scores become proportions before they weigh the values.
enum class Normalization {
    softmax, ///< positive, and each row sums to one
    none     ///< the scores themselves are the weights; a masked one is zero
};

/// How scores become weights.
struct WeighingOptions {
    std::optional<Mask> mask = {}; ///< (n, m), true where a query may attend; everything unless given
    Normalization normalization = Normalization::softmax;
};

/// The options as a trace records them: {{"mask", "none"}, {"normalization", "softmax"}}.
StepOptions describe(const WeighingOptions& options);

/// The second half of every attention: mask the scores, normalise them, take each value in that proportion.
///
/// The first half, the scoring function, is what one attention differs in from another.
///
/// @param scores   (n, m): how relevant each key is to each query
/// @param name     the step that the scores were traced as, such as "scores" or "scaled"
/// @param values   (m, d_v)
/// @param options  mask and normalisation
/// @param trace    | step    | shape    | formula                 | when            |
///                 |---------|----------|-------------------------|-----------------|
///                 | mask    | (n, m)   |                         | a mask is given |
///                 | masked  | (n, m)   | where(mask, NAME, -inf) | a mask is given |
///                 | weights | (n, m)   | softmax(masked)         | or softmax(NAME) without a mask |
///                 | context | (n, d_v) | weights @ values        |                 |
///
///                 Without normalisation the forbidden scores become 0 instead of minus infinity, and the weights are
///                 what the softmax would have been given.
/// @throws ShapeError where scores and values disagree in m, or scores and mask in n or m
/// @see seed document 002: attention as a weighted sum under an exchangeable scoring function
Attention weigh_values(const Matrix& scores, std::string_view name, const Matrix& values,
                       const WeighingOptions& options, const Trace& trace);

} // namespace attn
