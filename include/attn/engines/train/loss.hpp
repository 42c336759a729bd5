#pragma once

#include "attn/core/tensor.hpp"
#include "attn/core/trace.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace attn::train {

/// The target of a token whose logits the loss ignores: padding, or the last token of a text. PyTorch's ignore_index.
inline constexpr std::int64_t ignored_target = -100;

/// Binary cross-entropy from logits: the mean over all texts of -log p(label), where p(1) = sigmoid(logit).
///
/// It is computed as max(z, 0) - y z + log(1 + exp(-|z|)), which overflows for no logit.
/// @param logits  (b)
/// @param labels  (b): 0 or 1
/// @param trace   | step   | shape | formula                                                                        |
///                |--------|-------|--------------------------------------------------------------------------------|
///                | logits | (b,)  |                                                                                |
///                | labels | (b,)  |                                                                                |
///                | losses | (b,)  | relu(logits) - labels * logits + log(1 + exp(-abs(logits)))                    |
///                | loss   | ()    | mean(losses)                                                                   |
/// @throws ShapeError where there are not as many labels as logits, or none
/// @throws Error where a label is neither 0 nor 1
double binary_cross_entropy(const Vector& logits, const Integers& labels, const Trace& trace = {});

/// The loss of one row of logits, which are replaced by its gradient.
/// @param target  the class that the row is to predict
/// @return the loss
using RowLoss = std::function<double(std::span<double> logits, std::size_t target)>;

/// Options of cross_entropy().
struct CrossEntropyOptions {
    double label_smoothing = 0; ///< this share of the target is spread evenly over all classes
};

/// Categorical cross-entropy from logits: the mean over all targets of -log softmax(logits)[target].
///
/// With label smoothing e of V classes the target class weighs 1 - e + e / V and every other one e / V (Szegedy et al.
/// 2016, section 7; Vaswani et al. 2017, section 5.4). A token whose target is ignored_target has no share in the mean.
///
/// @param logits   (n, vocabulary)
/// @param targets  (n): rows' classes, or ignored_target
/// @param options  label smoothing
/// @param trace    | step         | shape           | formula                                                           |
///                 |--------------|-----------------|-------------------------------------------------------------------|
///                 | logits       | (n, vocabulary) |                                                                   |
///                 | targets      | (n,)            |                                                                   |
///                 | shifted      | (n, vocabulary) | logits - max(logits, axis=-1, keepdims=True)                      |
///                 | log_p        | (n, vocabulary) | shifted - log(sum(exp(shifted), axis=-1, keepdims=True))          |
///                 | target_p     | (n, vocabulary) | where(targets[..., None] == arange(V), 1, 0) * (1 - E) + E / V    |
///                 | is_counted   | (n,)            | where(targets > -1, 1, 0)                                         |
///                 | losses       | (n,)            | where(is_counted == 1, -sum(target_p * log_p, axis=-1), 0)        |
///                 | loss         | ()              | sum(losses) / sum(is_counted)                                     |
///
///                 with numbers in place of V and E; without smoothing `target_p` is the first factor alone
/// @throws ShapeError where there are not as many targets as rows
/// @throws Error where a target is no class, or all are ignored
double cross_entropy(const Matrix& logits, const Integers& targets, const CrossEntropyOptions& options = {},
                     const Trace& trace = {});

/// The same for a batch, (b, n, vocabulary) and (b, n): the mean over all its targets.
double cross_entropy(const Tensor3& logits, const IntegerMatrix& targets, const CrossEntropyOptions& options = {},
                     const Trace& trace = {});

} // namespace attn::train
