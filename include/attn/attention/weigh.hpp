#pragma once

#include "attn/attention/mask.hpp"
#include "attn/tensor.hpp"
#include "attn/trace.hpp"

#include <optional>
#include <string_view>

namespace attn {

/// What attention gives, for all queries at once; for a batch each tensor has the axis b in front.
template <Sequence T>
struct AttentionOf {
    T context; ///< ((b,) n, d_v): for each query, the values in the proportion of its weights
    T weights; ///< ((b,) n, m): a row sums to one, or to zero where the mask leaves nothing
};
using Attention = AttentionOf<Matrix>;
using BatchAttention = AttentionOf<Tensor3>;

/// Whether scores become proportions before they weigh the values.
enum class Normalization {
    softmax, ///< positive, and each row sums to one
    none     ///< the scores themselves are the weights; a masked one is zero
};

/// How scores become weights.
struct WeighingOptions {
    std::optional<AnyMask> mask = {}; ///< (n, m) or (b, n, m), true where a query may attend; everything unless given
    Normalization normalization = Normalization::softmax;
};

/// The options as a trace records them: {{"mask", "none"}, {"normalization", "softmax"}}.
StepOptions describe(const WeighingOptions& options);

/// The second half of every attention: mask the scores, normalise them, take each value in that proportion.
///
/// The first half, the scoring function, is what one attention differs in from another.
///
/// @param scores   ((b,) n, m): how relevant each key is to each query
/// @param name     the step that the scores were traced as, such as "scores" or "scaled"
/// @param values   ((b,) m, d_v)
/// @param options  mask and normalisation
/// @param trace    | step    | shape          | formula                 | when            |
///                 |---------|----------------|-------------------------|-----------------|
///                 | mask    | ((b,) n, m)    |                         | a mask is given, and no scope around has named it |
///                 | masked  | ((b,) n, m)    | where(mask, NAME, -inf) | a mask is given |
///                 | weights | ((b,) n, m)    | softmax(masked)         | or softmax(NAME) without a mask |
///                 | context | ((b,) n, d_v)  | weights @ values        |                 |
///
///                 Without normalisation the forbidden scores become 0 instead of minus infinity, and the weights are
///                 what the softmax would have been given.
/// @throws ShapeError where scores and values disagree in b or m, or scores and mask in b, n or m
/// @see seed document 002: attention as a weighted sum under an exchangeable scoring function
Attention weigh_values(const Matrix& scores, std::string_view name, const Matrix& values,
                       const WeighingOptions& options, const Trace& trace);
/// The same for each sequence of a batch.
BatchAttention weigh_values(const Tensor3& scores, std::string_view name, const Tensor3& values,
                            const WeighingOptions& options, const Trace& trace);

} // namespace attn
