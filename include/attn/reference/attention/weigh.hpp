#pragma once

#include "attn/reference/attention/mask.hpp"

namespace attn {

/// The results of attention for all queries; for a batch each tensor has the axis b in front, for the heads of a
/// batch the axes b and h.
template <Attending T>
struct AttentionOf {
    T context; ///< ((b,) n, d_v): for each query, the average of the values by its weights
    T weights; ///< ((b,) n, m): a row sums to one, or to zero where the mask leaves nothing; to less than one with a sink
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
///
/// A sink is one more score in each row of softmax: of no key, the same for all queries of a head, and learned. Its weight is
/// left out afterwards, so that the weights of a row sum to less than one. A head that finds nothing that it looks for can put
/// almost all of its weight there, and leave its tokens nearly as they are. A query that can attend to no key has the weights 0
/// with a sink, too.
///
/// The steps with a sink, in place of `weights = softmax(masked)`, for N queries and M keys:
///
/// | step        | shape               | formula                              |
/// |-------------|---------------------|--------------------------------------|
/// | sinks       | (one,)              |                                      |
/// | sink_scores | ((b,) n, one)       | repeat(sinks[None], N, axis=0)       |
/// | with_sink   | ((b,) n, m_and_one) | concat(masked, sink_scores, axis=-1) |
/// | all_weights | ((b,) n, m_and_one) | softmax(with_sink)                   |
/// | weights     | ((b,) n, m)         | all_weights[..., 0:M]                |
///
/// In a batch `sink_scores` is `repeat(repeat(sinks[None, None], B, axis=0), N, axis=1)`, and of heads, each of which has a sink
/// of its own, `repeat(repeat(sinks[None, :, None, None], B, axis=0), N, axis=2)`.
/// @see OpenAI 2025, "gpt-oss-120b & gpt-oss-20b Model Card", section 2.2; Xiao et al. 2024, "Efficient Streaming Language Models
///      with Attention Sinks", section 3.3, where the sink is a learned token instead
struct WeighingOptions {
    OptionalMask mask = {}; ///< (n, m) or (b, n, m), of heads (n, m) or (b, h, n, m): true where a query can attend
    std::optional<Causal> causal = {}; ///< no later keys; joined with the mask that is given
    Normalization normalization = Normalization::softmax;
    std::optional<Vector> sinks = {}; ///< (1), of heads (h): one more score for each query, whose weight is dropped
};

/// The options as a trace records them: {{"mask", "none"}, {"normalization", "softmax"}}.
StepOptions describe(const WeighingOptions& options);

/// Scores as weights: masked, then normalised; for an attention that does something with its weights before it averages values.
///
/// @param scores  ((b,) n, m), as a step
/// @param trace   the steps of weigh_values() up to `weights`
/// @return ((b,) n, m)
/// @throws ShapeError, Error  as weigh_values() does
template <Attending T>
Term<T> attention_weights(Term<T> scores, const WeighingOptions& options, const Trace& trace);

/// The second half of every attention: mask the scores, normalise them, and average the values by the weights.
///
/// Kinds of attention differ in the first half, the scoring function.
///
/// @param scores   ((b,) n, m): how relevant each key is to each query
/// @param name     the step that the scores were traced as, such as "scores" or "scaled"
/// @param values   ((b,) m, d_v)
/// @param options  mask; causal or not; normalisation; sinks
/// @param trace    | step    | shape          | formula                 | when            |
///                 |---------|----------------|-------------------------|-----------------|
///                 | mask    | ((b,) n, m)    |                         | a mask is given, and no scope around has named it |
///                 | masked  | ((b,) n, m)    | where(mask, NAME, -inf) | there is a mask |
///                 | weights | ((b,) n, m)    | softmax(masked)         | or softmax(NAME) without a mask |
///                 | context | ((b,) n, d_v)  | weights @ values        |                 |
///
///                 where it is causal, the steps of join_masks() in place of `mask`. Without normalisation the forbidden
///                 scores become 0 instead of minus infinity, and `weights` is another name of `masked` or NAME.
///                 With a sink, the steps of WeighingOptions come in place of `weights`.
/// @throws ShapeError where scores and values disagree in b or m, or scores and mask in b, n or m, or there is not one sink
///                    for each head
/// @throws Error      where there are sinks, and scores are not normalised
/// @see document 002 of docs/sources.md: attention as a weighted sum, for any scoring function
template <Attending T>
requires Traceable<T> AttentionOf<T> weigh_values(T scores, std::string_view name, const T& values,
                                                  const WeighingOptions& options, const Trace& trace);
/// The same for terms, which have names.
template <Attending T>
AttentionOf<Term<T>> weigh_values(Term<T> scores, const Term<T>& values, const WeighingOptions& options,
                                  const Trace& trace);

} // namespace attn
