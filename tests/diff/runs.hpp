#pragma once

#include "reference/layers/examples.hpp"
#include "masked.hpp"

#include "attn/diff/diff.hpp"
#include "attn/formula/evaluate.hpp"
#include "attn/formula/scope.hpp"
#include "attn/mistakes/interventions.hpp"
#include "attn/reference/layers/activation.hpp"

#include <cmath>
#include <functional>

/// Small runs to compare arrays with, and the arrays of those who compute the same in other layouts.
namespace attn::test {

using Run = std::function<void(const Trace&)>;

// ------------------------------------------------------------------------------------------------ runs

inline Mask first_keys_only(std::size_t n, std::size_t m)
{
    Mask mask(Mask::shape_type{n, m}, true);
    for (std::size_t i = 0; i < n; ++i)
        mask(i, m - 1) = i + 1 == n;
    return mask;
}

/// A post-norm layer of two heads over four tokens, with a mask.
inline void run_layer(const Trace& trace)
{
    Numbers numbers(11);
    const EncoderLayerWeights weights = random_encoder_layer(numbers);
    const Matrix x = numbers.matrix(4, 6);
    EncoderOptions options;
    options.attention.heads = 2;
    encoder_layer(x, weights, masked(options, first_keys_only(4, 4)), trace);
}

/// Two pre-norm layers of three heads over a batch, with GELU and rotary positions.
inline void run_stack(const Trace& trace)
{
    Numbers numbers(12);
    const EncoderWeights weights{{random_encoder_layer(numbers), random_encoder_layer(numbers)},
                                 random_norm(numbers, 6)};
    const Tensor3 x = numbers.tensor3(2, 5, 6);
    EncoderOptions options;
    options.attention.heads = 3;
    options.attention.positions = HeadPositions::rotary;
    options.placement = NormPlacement::pre;
    options.feed_forward.activation = Activation::gelu;
    encoder(x, weights, options, trace);
}

/// One attention of two heads with a memory of another length.
inline void run_heads(const Trace& trace)
{
    Numbers numbers(13);
    const MultiHeadWeights weights = random_heads(numbers);
    const Tensor3 x = numbers.tensor3(3, 4, 6);
    const Tensor3 memory = numbers.tensor3(3, 5, 6);
    multi_head_attention(Sources(x, memory), weights, {.heads = 2}, trace);
}

/// A recording of given arrays and of what formulas make of them, as a stranger's program writes it.
class ByFormulas {
public:
    ByFormulas& given(const std::string& path, Array value)
    {
        recording.steps.push_back({path, "", {}, "", {}, std::move(value)});
        return *this;
    }

    ByFormulas& computed(const std::string& path, const std::string& formula)
    {
        const formula::StepNames names(recording);
        const formula::Lookup lookup = [&](std::string_view name) {
            const auto step = names.find(name);
            return step ? &recording.steps[*step].value : nullptr;
        };
        recording.steps.push_back({path, formula, {}, "", {}, formula::evaluate(formula, lookup).value});
        return *this;
    }

    Recording recording;
};

inline Array real(Shape shape, std::vector<double> values)
{
    return {std::move(shape), std::move(values), ElementType::real};
}

inline Recording recording_of(const Run& run)
{
    Recorder recorder;
    run(Trace(recorder));
    return recorder.recording();
}

/// What is recorded of a run after a listener that answers.
inline Recording recording_of(const Run& run, Listener& answering)
{
    Recorder recorder;
    Listeners listeners({&answering, &recorder});
    run(Trace(listeners));
    return recorder.recording();
}

inline files::NamedArrays arrays_of(const Recording& recording)
{
    files::NamedArrays arrays;
    for (const Step& step : recording.steps)
        arrays.emplace(step.path, step.value);
    for (const Alias& alias : recording.aliases)
        arrays.emplace(alias.path, arrays.at(alias.target));
    return arrays;
}

/// The step of that path, or that an alias of that path means.
inline const Step& named(const Recording& recording, const std::string& path)
{
    return recording.steps.at(formula::StepNames(recording).find(path).value());
}

inline const diff::StepDiff& about(const diff::Diff& diff, std::string_view path)
{
    for (const diff::StepDiff& step : diff.steps)
        if (step.step->path == path)
            return step;
    throw std::out_of_range(std::string(path));
}

/// Changes one number of one step, and lets the run go on with it.
class Planted final : public Listener {
public:
    Planted(std::string path, double change) : path_(std::move(path)), change_(change) {}

private:
    std::optional<Array> on_step(const Step& step) override
    {
        if (step.path != path_)
            return std::nullopt;
        Array changed = step.value;
        for (double& value : changed.values)
            if (std::isfinite(value)) {
                value += change_;
                break;
            }
        return changed;
    }

    std::string path_;
    double change_;
};

inline files::NamedArrays rounded(const Recording& steps, mistakes::Precision precision)
{
    files::NamedArrays arrays = arrays_of(steps);
    for (auto& [name, array] : arrays)
        if (array.type == ElementType::real)
            for (double& value : array.values)
                value = rounded_to(precision, value);
    return arrays;
}

/// True where a change of one step changes a later one by more than that: what ReLU or a mask leaves out changes none.
inline bool follows(const std::string& path, const Recording& mine, const Recording& reference, double least)
{
    bool is_later = false, differs = false;
    for (std::size_t i = 0; i < reference.steps.size(); ++i) {
        for (std::size_t j = 0; is_later && j < reference.steps[i].value.size(); ++j) {
            const double expected = reference.steps[i].value.values[j], number = mine.steps[i].value.values[j];
            differs = differs || std::abs(number - expected) > least * (1 + std::abs(expected));
        }
        is_later = is_later || reference.steps[i].path == path;
    }
    return differs;
}

inline const std::vector<Run> runs{run_layer, run_stack, run_heads};

// ------------------------------------------------------------------------------------------------ arrays

inline Array transposed(const Array& matrix)
{
    Array result{{matrix.shape[1], matrix.shape[0]}, {}, matrix.type};
    for (std::size_t j = 0; j < matrix.shape[1]; ++j)
        for (std::size_t i = 0; i < matrix.shape[0]; ++i)
            result.values.push_back(matrix.values[i * matrix.shape[1] + j]);
    return result;
}

/// (a, b, …) as (b, a, …).
inline Array first_axes_swapped(const Array& array)
{
    Array result = array;
    std::swap(result.shape[0], result.shape[1]);
    std::size_t inner = 1;
    for (std::size_t axis = 2; axis < array.rank(); ++axis)
        inner *= array.shape[axis];
    for (std::size_t i = 0; i < array.shape[0]; ++i)
        for (std::size_t j = 0; j < array.shape[1]; ++j)
            for (std::size_t k = 0; k < inner; ++k)
                result.values[(j * array.shape[0] + i) * inner + k] =
                    array.values[(i * array.shape[1] + j) * inner + k];
    return result;
}

/// Arrays of one shape behind each other along a new first axis.
inline Array stacked(const std::vector<Array>& arrays)
{
    Array result{arrays.front().shape, {}, arrays.front().type};
    result.shape.insert(result.shape.begin(), arrays.size());
    for (const Array& array : arrays)
        result.values.insert(result.values.end(), array.values.begin(), array.values.end());
    return result;
}

/// The arrays of all heads as (b, h, …), with one sequence in the batch unless it is one.
inline Array packed_heads(const Recording& steps, const std::string& scope, const std::string& name, std::size_t heads)
{
    std::vector<Array> arrays;
    for (std::size_t head = 0; head < heads; ++head)
        arrays.push_back(named(steps, scope + "head." + std::to_string(head) + "." + name).value);
    Array result = stacked(arrays);
    if (arrays.front().rank() == 3)
        return first_axes_swapped(result);
    result.shape.insert(result.shape.begin(), 1);
    return result;
}

/// What the layer's trace gives with one array replaced.
inline diff::Diff with_replaced(const Recording& reference, const std::string& path, Array array)
{
    files::NamedArrays mine = arrays_of(reference);
    mine[path] = std::move(array);
    return diff::compare(reference, std::move(mine));
}

} // namespace attn::test
