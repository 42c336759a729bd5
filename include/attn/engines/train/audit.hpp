#pragma once

#include "attn/core/recorder.hpp"
#include "attn/engines/train/adam.hpp"
#include "attn/files/weights/visit.hpp"
#include "attn/formula/gradient.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace attn::train {

/// Appends the update of one tensor of weights to a recording that has its gradient:
///
/// | step                    | formula                                                    |
/// |-------------------------|------------------------------------------------------------|
/// | adam.PATH.first_before  |                                                            |
/// | adam.PATH.second_before |                                                            |
/// | adam.PATH.first         | B1 * first_before + (1 - B1) * grad.PATH                   |
/// | adam.PATH.second        | B2 * second_before + (1 - B2) * grad.PATH ** 2             |
/// | adam.PATH.step          | RATE * first / (SCALE * sqrt(second) + EPSILON)            |
/// | adam.PATH.after         | SHRINK * PATH - step                                       |
///
/// with numbers in place of the words in capitals.
/// @param path           of the tensor, an input of the recording
/// @param first_before   Adam's means before the step, in the tensor's shape
void append_update(Recording& recording, const std::string& path, const Array& first_before, const Array& second_before,
                   const AdamOptions& options, const AdamFactors& factors);

/// The paths that tensors of weights have in the trace of a function of them, in the order of files::visit().
/// @param run  computes with weights, and names what it computes: run(weights, trace)
template <class Weights, class Run>
std::vector<std::string> paths_in_trace(Weights weights, const Run& run)
{
    double mark = 0; // each tensor is full of a number of its own
    files::for_each_tensor(weights, [&mark](const files::WeightTensor&, auto&... parts) { (parts.fill(++mark), ...); });
    Recorder recorder;
    run(weights, Trace(recorder));
    std::vector<std::string> paths(static_cast<std::size_t>(mark));
    for (const Step& step : recorder.steps())
        if (step.formula.empty() && step.value.type == ElementType::real && !step.value.values.empty())
            for (double number = 1; number <= mark; ++number)
                if (std::all_of(step.value.values.begin(), step.value.values.end(),
                                [number](double value) { return value == number; }))
                    paths[static_cast<std::size_t>(number) - 1] = step.path;
    return paths;
}

/// One step of training as a trace: forward pass and loss, all gradients, and Adam's update of each tensor of weights.
/// @param first    Adam's means before the step, as weights
/// @param second   those of the squares
/// @param run      computes the step `loss` from weights: run(weights, trace)
/// @param factors  of the step
template <class Weights, class Run>
Recording audit_step(const Weights& weights, const Weights& first, const Weights& second, const Run& run,
                     const AdamOptions& options, const AdamFactors& factors)
{
    Recorder forward;
    run(weights, Trace(forward));
    Recording all = formula::gradients(forward.recording(), {.of = "loss"});
    const std::vector<std::string> paths = paths_in_trace(weights, run);
    const auto arrays_of = [](const Weights& tensors) {
        std::vector<Array> arrays;
        files::for_each_tensor(tensors, [&](const files::WeightTensor&, const auto&... parts) {
            (arrays.push_back(to_array(parts)), ...);
        });
        return arrays;
    };
    const std::vector<Array> firsts = arrays_of(first), seconds = arrays_of(second);
    for (std::size_t i = 0; i < paths.size(); ++i)
        append_update(all, paths[i], firsts[i], seconds[i], options, factors);
    return all;
}

/// The weights after the step, from the trace that audit_step() gave.
template <class Weights, class Run>
Weights updated(const Recording& audited, Weights weights, const Run& run)
{
    const std::vector<std::string> paths = paths_in_trace(weights, run);
    std::size_t next = 0;
    files::for_each_tensor(weights, [&](const files::WeightTensor&, auto&... parts) {
        const auto replace = [&](auto& part) {
            const std::string path = "adam." + paths[next++] + ".after";
            part = from_array<std::decay_t<decltype(part)>>(audited.at(path).value);
        };
        (replace(parts), ...);
    });
    return weights;
}

} // namespace attn::train
