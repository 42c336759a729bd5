#pragma once

#include "generators.hpp"
#include "reference/layers/examples.hpp"

#include "attn/core/recorder.hpp"
#include "attn/engines/train/gpt_trainer.hpp"
#include "attn/engines/train/loss.hpp"
#include "attn/files/weights/gpt.hpp"
#include "attn/files/weights/visit.hpp"
#include "attn/formula/gradient.hpp"

#include <algorithm>
#include <cmath>
#include <string>

/// Models to be trained, and their gradients by the formulas of their trace.
namespace attn::test {

/// The gradients of a traced loss with respect to weights, in the weights' form: each tensor is the input that holds its
/// numbers.
template <class Weights>
Weights gradient_by_formulas(const Recorder& forward, Weights weights)
{
    const Recording back = formula::gradients(forward.recording(), {.of = "loss"});
    files::for_each_tensor(weights, [&](const files::WeightTensor&, auto&... parts) {
        const auto replace = [&](auto& part) {
            const Array numbers = to_array(part);
            const auto input = std::ranges::find_if(forward.steps(), [&](const Step& step) {
                return step.formula.empty() && identical(step.value, numbers);
            });
            const auto grad = std::ranges::find(back.steps, "grad." + input->path, &Step::path);
            using Part = std::decay_t<decltype(part)>;
            part = grad == back.steps.end() ? Part(part * 0) : from_array<Part>(grad->value);
        };
        (replace(parts), ...);
    });
    return weights;
}

/// The largest difference of any weight, relative to the largest number of its tensor; and which tensor's. The key's bias,
/// whose gradient is zero but for rounding, is a part of the tensor in_proj_bias.
template <class Weights>
std::pair<double, std::string> worst_difference(const Weights& found, const Weights& expected)
{
    std::vector<std::pair<std::string, std::vector<double>>> all[2];
    const auto collect = [](const Weights& weights, auto& into) {
        files::for_each_tensor(weights, [&](const files::WeightTensor& tensor, const auto&... parts) {
            auto& [name, all_parts] = into.emplace_back(tensor.name, std::vector<double>());
            (all_parts.insert(all_parts.end(), parts.begin(), parts.end()), ...);
        });
    };
    collect(found, all[0]);
    collect(expected, all[1]);
    std::pair<double, std::string> worst{0, ""};
    for (std::size_t i = 0; i < all[0].size(); ++i) {
        double largest = 0, error = 0;
        for (std::size_t j = 0; j < all[0][i].second.size(); ++j) {
            largest = std::max(largest, std::abs(all[1][i].second[j]));
            error = std::max(error, std::abs(all[0][i].second[j] - all[1][i].second[j]));
        }
        worst = std::max(worst, {error / largest, all[0][i].first});
    }
    return worst;
}

/// Half of each number, which is as large as weights are, and as float32 holds it, so that both start from the same.
template <class Weights>
Weights in_float32(Weights weights)
{
    files::for_each_tensor(weights, [](const files::WeightTensor&, auto&... parts) {
        const auto round = [](auto& part) {
            for (double& number : part)
                number = static_cast<float>(number / 2);
        };
        (round(parts), ...);
    });
    return weights;
}

inline GptWeights random_decoder(Numbers& numbers, std::size_t vocabulary = 7, std::size_t d_model = 6,
                                 std::size_t d_ff = 5, std::size_t layers = 2)
{
    GptWeights weights{numbers.matrix(vocabulary, d_model), numbers.matrix(8, d_model)};
    for (std::size_t i = 0; i < layers; ++i)
        weights.layers.push_back(random_encoder_layer(numbers, d_model, d_ff));
    weights.norm = random_norm(numbers, d_model);
    return in_float32(weights);
}

/// Whole numbers from 0 to below a limit.
inline std::int64_t whole(Numbers& numbers, std::size_t below)
{
    return static_cast<std::int64_t>((numbers.number() + 2) / 4 * static_cast<double>(below));
}

/// Texts of different lengths.
inline std::vector<train::Text> random_texts(Numbers& numbers, std::size_t count, std::size_t vocabulary,
                                             std::size_t longest = 8)
{
    std::vector<train::Text> texts;
    for (std::size_t i = 0; i < count; ++i) {
        train::Text& text = texts.emplace_back(2 + static_cast<std::size_t>(whole(numbers, longest - 1)));
        for (std::int64_t& id : text)
            id = whole(numbers, vocabulary);
    }
    return texts;
}

} // namespace attn::test
