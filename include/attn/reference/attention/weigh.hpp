#pragma once

#include "attn/reference/attention/mask.hpp"

namespace attn {

/// The results of attention for all queries; for a batch each tensor has the axis b in front, for the heads of a
/// batch the axes b and h.
template <Attending T>
struct AttentionOf {
    T context; ///< ((b,) n, d_v): for each query, the average of the values by its weights
    T weights; ///< ((b,) n, m): a row sums to one, or to zero where the mask leaves nothing
};
using Attention = AttentionOf<Matrix>;
using BatchAttention = AttentionOf<Tensor3>;
using HeadsAttention = AttentionOf<Tensor4>;

/// Whether scores are normalised before they are used as weights.
enum class Normalization {
    softmax, ///< positive, and each row sums to one
    none     ///< the scores themselves are the weights; a masked one is zero
};

/// Its name as a trace has it: "softmax", "none".
std::string_view name_of(Normalization normalization);

/// How scores become weights.
struct WeighingOptions {
    OptionalMask mask = {}; ///< (n, m) or (b, n, m), of heads (n, m) or (b, h, n, m): true where a query can attend
    std::optional<Causal> causal = {}; ///< no later keys; joined with the mask that is given
    Normalization normalization = Normalization::softmax;
};

/// The options as a trace records them: {{"mask", "none"}, {"normalization", "softmax"}}.
StepOptions describe(const WeighingOptions& options);

/// The second half of every attention: mask the scores, normalise them, and average the values by the weights.
///
/// Kinds of attention differ in the first half, the scoring function.
///
/// @param scores   ((b,) n, m): how relevant each key is to each query
/// @param name     the step that the scores were traced as, such as "scores" or "scaled"
/// @param values   ((b,) m, d_v)
/// @param options  mask; causal or not; normalisation
/// @param trace    | step    | shape          | formula                 | when            |
///                 |---------|----------------|-------------------------|-----------------|
///                 | mask    | ((b,) n, m)    |                         | a mask is given, and no scope around has named it |
///                 | masked  | ((b,) n, m)    | where(mask, NAME, -inf) | there is a mask |
///                 | weights | ((b,) n, m)    | softmax(masked)         | or softmax(NAME) without a mask |
///                 | context | ((b,) n, d_v)  | weights @ values        |                 |
///
///                 where it is causal, the steps of join_masks() in place of `mask`. Without normalisation the forbidden
///                 scores become 0 instead of minus infinity, and `weights` is another name of `masked` or NAME.
/// @throws ShapeError where scores and values disagree in b or m, or scores and mask in b, n or m
/// @see document 002 of docs/sources.md: attention as a weighted sum, for any scoring function
template <Attending T>
AttentionOf<T> weigh_values(T scores, std::string_view name, const T& values, const WeighingOptions& options,
                            const Trace& trace);

} // namespace attn
