#pragma once

#include "examples.hpp"

#include "attn/core/choices.hpp"
#include "attn/reference/layers/activation.hpp"
#include "attn/reference/layers/decoder.hpp"

#include <cmath>

/// What feed-forward networks, encoder and decoder layers compute, once more by plain loops.
namespace attn::test {

/// An activation, written once more.
struct ActivationByHand {
    Activation choice;
    double (*function)(double x);
};

inline constexpr ActivationByHand activations_by_hand[] = {
    {Activation::relu, [](double x) { return x > 0 ? x : 0; }},
    {Activation::gelu, [](double x) { return x * 0.5 * (1 + std::erf(x / std::sqrt(2.0))); }},
    {Activation::gelu_tanh,
     [](double x) {
         return x * 0.5 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * std::pow(x, 3))));
     }},
    {Activation::silu, [](double x) { return x / (1 + std::exp(-x)); }},
    {Activation::quick_gelu, [](double x) { return x / (1 + std::exp(-1.702 * x)); }},
    {Activation::gelu_bloom,
     [](double x) { return x * 0.5 * (1 + std::tanh(0.79788456 * (x + 0.044715 * std::pow(x, 3)))); }},
};

inline double bent_by_hand(double x, Activation activation)
{
    return row_for<activations_by_hand>(activation).function(x);
}

inline Matrix feed_forward_by_hand(const Matrix& x, const FeedForwardWeights& weights, Activation activation)
{
    Matrix hidden = linear_by_hand(x, weights.hidden);
    for (double& unit : hidden)
        unit = bent_by_hand(unit, activation);
    return linear_by_hand(hidden, weights.output);
}

inline Matrix encoder_layer_by_hand(const Matrix& x, const EncoderLayerWeights& w, const EncoderOptions& options,
                                    const ByHand& attention = {})
{
    const double epsilon = options.norm.epsilon;
    const auto attend = [&](const Matrix& tokens) {
        return heads_by_hand(tokens, tokens, tokens, w.self_attention, options.attention.heads, attention).output;
    };
    const auto feed = [&](const Matrix& tokens) {
        return feed_forward_by_hand(tokens, w.feed_forward, options.feed_forward.activation);
    };
    if (options.placement == NormPlacement::post) {
        const Matrix between = norm_by_hand(sum_by_hand(x, attend(x)), w.norm1, epsilon);
        return norm_by_hand(sum_by_hand(between, feed(between)), w.norm2, epsilon);
    }
    const Matrix between = sum_by_hand(x, attend(norm_by_hand(x, w.norm1, epsilon)));
    return sum_by_hand(between, feed(norm_by_hand(between, w.norm2, epsilon)));
}

inline Matrix decoder_layer_by_hand(const Matrix& x, const Matrix& memory, const DecoderLayerWeights& w,
                                    const EncoderOptions& options, const ByHand& self = {}, const ByHand& cross = {})
{
    const double epsilon = options.norm.epsilon;
    const std::size_t heads = options.attention.heads;
    const auto look = [&](const Matrix& tokens) {
        return heads_by_hand(tokens, tokens, tokens, w.self_attention, heads, self).output;
    };
    const auto ask = [&](const Matrix& tokens) {
        return heads_by_hand(tokens, memory, memory, w.cross_attention, heads, cross).output;
    };
    const auto feed = [&](const Matrix& tokens) {
        return feed_forward_by_hand(tokens, w.feed_forward, options.feed_forward.activation);
    };
    if (options.placement == NormPlacement::post) {
        const Matrix first = norm_by_hand(sum_by_hand(x, look(x)), w.norm1, epsilon);
        const Matrix second = norm_by_hand(sum_by_hand(first, ask(first)), w.norm2, epsilon);
        return norm_by_hand(sum_by_hand(second, feed(second)), w.norm3, epsilon);
    }
    const Matrix first = sum_by_hand(x, look(norm_by_hand(x, w.norm1, epsilon)));
    const Matrix second = sum_by_hand(first, ask(norm_by_hand(first, w.norm2, epsilon)));
    return sum_by_hand(second, feed(norm_by_hand(second, w.norm3, epsilon)));
}

} // namespace attn::test
