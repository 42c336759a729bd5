#include "attn/engines/train/loss.hpp"

#include "attn/core/error.hpp"
#include "attn/core/shape.hpp"
#include "attn/reference/ops/batch.hpp"
#include "attn/reference/ops/reduce.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <type_traits>

namespace attn::train {
namespace {

/// The ids beside logits: of a sequence, of a batch.
template <Sequence T>
using TargetsOf = std::conditional_t<std::same_as<T, Matrix>, Integers, IntegerMatrix>;

template <Sequence T>
void expect_classes(const T& logits, const TargetsOf<T>& targets)
{
    const std::size_t classes = logits.shape().back();
    for (const std::int64_t target : targets)
        if (target != ignored_target && (target < 0 || static_cast<std::size_t>(target) >= classes))
            throw Error("cross_entropy: there is no class ", target, " among ", classes, "; a target to be ignored is ",
                        ignored_target);
    if (std::ranges::all_of(targets, [](std::int64_t target) { return target == ignored_target; }))
        throw Error("cross_entropy: all targets are ignored, expected at least one class");
}

/// Calls f(row of logits, number of the row) for each token.
template <Sequence T, class F>
void each_row(T& logits, const F& f)
{
    const std::size_t width = logits.shape().back();
    for (std::size_t row = 0; row * width < logits.size(); ++row)
        f(logits.data() + row * width, row);
}

template <Sequence T>
T shift(T logits)
{
    const std::size_t width = logits.shape().back();
    each_row(logits, [width](double* row, std::size_t) {
        const double largest = *std::max_element(row, row + width);
        std::for_each(row, row + width, [largest](double& logit) { logit -= largest; });
    });
    return logits;
}

template <Sequence T>
T log_probabilities(T shifted)
{
    const std::size_t width = shifted.shape().back();
    each_row(shifted, [width](double* row, std::size_t) {
        double sum = 0;
        std::for_each(row, row + width, [&sum](double logit) { sum += std::exp(logit); });
        std::for_each(row, row + width, [sum](double& logit) { logit -= std::log(sum); });
    });
    return shifted;
}

template <Sequence T>
T target_probabilities(const T& logits, const TargetsOf<T>& targets, double smoothing)
{
    T probabilities = logits;
    const std::size_t width = logits.shape().back();
    each_row(probabilities, [&](double* row, std::size_t number) {
        const std::int64_t target = targets.data()[number];
        for (std::size_t i = 0; i < width; ++i)
            row[i] = (static_cast<std::int64_t>(i) == target ? 1 : 0) * (1 - smoothing) +
                     smoothing / static_cast<double>(width);
    });
    return probabilities;
}

std::string target_formula(std::size_t classes, double smoothing)
{
    const std::string number = std::to_string(classes);
    const std::string one_hot = "where(targets[..., None] == arange(" + number + "), 1, 0)";
    return smoothing == 0
               ? one_hot
               : one_hot + " * (1 - " + exact_text(smoothing) + ") + " + exact_text(smoothing) + " / " + number;
}

template <Sequence T>
double mean_loss(const T& given_logits, const TargetsOf<T>& given_targets, const CrossEntropyOptions& options,
                 const Trace& caller)
{
    expect_agreement("cross_entropy", "n", {"logits", given_logits, token_axis<T>},
                     {"targets", given_targets, token_axis<T>});
    expect_classes(given_logits, given_targets);
    const Trace trace = caller.module("cross_entropy", [&] {
        return StepOptions{{"label_smoothing", exact_text(options.label_smoothing)}};
    });
    const T& logits = trace.input("logits[(b,) n, vocabulary]", given_logits);
    const TargetsOf<T>& targets = trace.input("targets[(b,) n]", given_targets);

    // The logarithm of softmax, which no logit overflows.
    const T shifted =
        trace("shifted[(b,) n, vocabulary]", "logits - max(logits, axis=-1, keepdims=True)", shift(logits));
    const T log_p = trace("log_p[(b,) n, vocabulary]", "shifted - log(sum(exp(shifted), axis=-1, keepdims=True))",
                          log_probabilities(shifted));

    // How probable each class should be, and minus the logarithm of how probable it is.
    const T target_p = trace(
        "target_p[(b,) n, vocabulary]", [&] { return target_formula(logits.shape().back(), options.label_smoothing); },
        target_probabilities(logits, targets, options.label_smoothing));
    TargetsOf<T> is_counted = targets;
    std::ranges::transform(targets, is_counted.begin(), [](std::int64_t target) { return target > -1; });
    is_counted = trace("is_counted[(b,) n]", "where(targets > -1, 1, 0)", is_counted);
    PerToken<T> losses(given_targets.shape(), 0.0);
    T terms = target_p * log_p;
    each_row(terms, [&](const double* row, std::size_t number) {
        if (is_counted.data()[number] != 0)
            losses.data()[number] = -std::accumulate(row, row + terms.shape().back(), 0.0);
    });
    losses = trace("losses[(b,) n]", "where(is_counted == 1, -sum(target_p * log_p, axis=-1), 0)", losses);

    // The mean of those that count.
    const double sum = std::accumulate(losses.begin(), losses.end(), 0.0);
    const std::int64_t count = std::accumulate(is_counted.begin(), is_counted.end(), std::int64_t{0});
    return trace("loss", "sum(losses) / sum(is_counted)", sum / static_cast<double>(count));
}

} // namespace

double binary_cross_entropy(const Vector& given_logits, const Integers& given_labels, const Trace& caller)
{
    expect_agreement("binary_cross_entropy", "b", {"logits", given_logits, 0}, {"labels", given_labels, 0});
    if (given_logits.size() == 0)
        throw ShapeError("binary_cross_entropy: logits (0,) have no text, expected at least one");
    for (const std::int64_t label : given_labels)
        if (label != 0 && label != 1)
            throw Error("binary_cross_entropy: a label is ", label, ", expected 0 or 1");
    const Trace trace = caller.module("binary_cross_entropy");
    const Vector& logits = trace.input("logits[b]", given_logits);
    const Integers& labels = trace.input("labels[b]", given_labels);
    Vector losses = logits;
    for (std::size_t i = 0; i < losses.size(); ++i) {
        const double logit = logits(i);
        losses(i) =
            std::max(logit, 0.0) - static_cast<double>(labels(i)) * logit + std::log(1 + std::exp(-std::abs(logit)));
    }
    losses = trace("losses[b]", "relu(logits) - labels * logits + log(1 + exp(-abs(logits)))", losses);
    return trace("loss", "mean(losses)", mean_all(losses));
}

double cross_entropy(const Matrix& logits, const Integers& targets, const CrossEntropyOptions& options,
                     const Trace& trace)
{
    return mean_loss(logits, targets, options, trace);
}

double cross_entropy(const Tensor3& logits, const IntegerMatrix& targets, const CrossEntropyOptions& options,
                     const Trace& trace)
{
    expect_agreement("cross_entropy", "b", {"logits", logits, 0}, {"targets", targets, 0});
    return mean_loss(logits, targets, options, trace);
}

} // namespace attn::train
