#pragma once

#include "attn/tensor.hpp"
#include "attn/trace.hpp"

#include <optional>
#include <string_view>

namespace attn {

/// The learned parameters of a linear map.
struct LinearWeights {
    Matrix weight;                   ///< (d_in, d_out): x @ weight. PyTorch stores the transpose, (d_out, d_in)
    std::optional<Vector> bias = {}; ///< (d_out)
};

/// What a linear map is called inside a larger function: its input and its labels, with axes.
struct LinearSteps {
    std::string_view input = "x";
    std::string_view weight = "weight[d_in, d_out]";
    std::string_view bias = "bias[d_out]";
    std::string_view output = "output[(b,) n, d_out]";
};

/// A linear map of every token: x W + b.
///
/// @param x        ((b,) n, d_in)
/// @param weights  weight and bias
/// @param steps    what the steps are called; the input has to be named by the caller
/// @param trace    | step   | shape           | formula           |
///                 |--------|-----------------|-------------------|
///                 | weight | (d_in, d_out)   |                   |
///                 | bias   | (d_out,)        |                   |
///                 | output | ((b,) n, d_out) | x @ weight + bias |
/// @return ((b,) n, d_out)
/// @throws ShapeError where x and weight disagree in d_in, or weight and bias in d_out
Matrix linear(const Matrix& x, const LinearWeights& weights, const LinearSteps& steps = {}, const Trace& trace = {});
/// The same for a batch.
Tensor3 linear(const Tensor3& x, const LinearWeights& weights, const LinearSteps& steps = {}, const Trace& trace = {});

} // namespace attn
