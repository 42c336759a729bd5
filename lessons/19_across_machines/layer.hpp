#pragma once

// The encoder layer that ranks divide by heads and hidden units.

#include "attn/reference/layers/encoder.hpp"
#include "attn/reference/ops/random.hpp"

namespace attn {

/// An encoder layer of 8 features, 4 heads and 16 hidden units, and 8 tokens: every
/// process draws the same.
struct DrawnLayer {
    Matrix x;
    EncoderLayerWeights weights;
    EncoderOptions options;
};

inline DrawnLayer draw_layer()
{
    constexpr std::size_t n = 8, d_model = 8, d_ff = 16;
    RandomNumbers numbers(19);
    const auto map = [&](std::size_t from, std::size_t to) {
        Matrix weights = numbers.matrix(from, to, 0.5);
        return LinearWeights{std::move(weights), numbers.vector(to, 0.5)};
    };
    DrawnLayer layer;
    layer.x = numbers.matrix(n, d_model);
    MultiHeadWeights& attention = layer.weights.self_attention;
    attention.query = map(d_model, d_model);
    attention.key = map(d_model, d_model);
    attention.value = map(d_model, d_model);
    attention.output = map(d_model, d_model);
    layer.weights.feed_forward.hidden = map(d_model, d_ff);
    layer.weights.feed_forward.output = map(d_ff, d_model);
    const Vector ones = xt::ones<double>({d_model}), zeros = xt::zeros<double>({d_model});
    layer.weights.norm1 = layer.weights.norm2 = {ones, zeros};
    layer.options.attention.heads = 4;
    return layer;
}

} // namespace attn
