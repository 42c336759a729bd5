#pragma once

#include "attn/reference/layers/activation.hpp"
#include "attn/reference/layers/encoder.hpp"

#include <random>

namespace attn::test {

/// An encoder layer, drawn from a seed: every rank draws the same.
struct DrawnLayer {
    /// @param heads  of two features each
    DrawnLayer(std::size_t heads, std::size_t d_ff)
    {
        const std::size_t width = 2 * heads;
        x = matrix(5, d_model);
        grad_output = matrix(5, d_model);
        weights = {{map(d_model, width), map(d_model, width), map(d_model, width), map(width, d_model)},
                   {map(d_model, d_ff), map(d_ff, d_model)},
                   {vector(d_model), vector(d_model)},
                   {vector(d_model), vector(d_model)}};
        options.attention.heads = heads;
        options.feed_forward.activation = Activation::gelu; // smooth: no unit is off
    }

    Matrix x, grad_output;
    EncoderLayerWeights weights;
    EncoderOptions options;

private:
    static constexpr std::size_t d_model = 6;

    Matrix matrix(std::size_t rows, std::size_t columns)
    {
        Matrix drawn(Matrix::shape_type{rows, columns});
        for (double& number : drawn)
            number = normal_(engine_);
        return drawn;
    }
    Vector vector(std::size_t size)
    {
        Vector drawn(Vector::shape_type{size});
        for (double& number : drawn)
            number = normal_(engine_);
        return drawn;
    }
    LinearWeights map(std::size_t rows, std::size_t columns) { return {matrix(rows, columns), vector(columns)}; }

    std::mt19937_64 engine_{7};
    std::normal_distribution<double> normal_{0, 0.5}; // no softmax saturates
};

} // namespace attn::test
