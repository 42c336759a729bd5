#include "attn/reference/layers/convolution.hpp"

#include "attn/core/error.hpp"
#include "attn/core/shape.hpp"
#include "attn/reference/ops/matmul.hpp"

#include <algorithm>
#include <string>

namespace attn {
namespace {

/// The number of tokens in a window.
template <Sequence T>
std::size_t width_of(const T& x, const ConvolutionWeights& weights)
{
    const std::size_t rows = weights.kernel.shape(0), d_in = x.shape(feature_axis<T>);
    if (d_in == 0 || rows % d_in != 0 || rows / d_in % 2 == 0)
        throw ShapeError("convolution: kernel " + to_string(shape_of(weights.kernel)) + " and x " +
                         to_string(shape_of(x)) + " do not fit, expected d_in = " + std::to_string(d_in) +
                         " rows for each of an odd number of tokens");
    if (x.shape(token_axis<T>) == 0)
        throw ShapeError("convolution: x " + to_string(shape_of(x)) + " has no tokens, expected at least one");
    if (weights.bias)
        expect_agreement("convolution", "d_out", {"kernel", weights.kernel, 1}, {"bias", *weights.bias, 0});
    return rows / d_in;
}

/// Zeros of the shape of x, but for the sizes of the last two axes.
template <Sequence T>
T zeros(const T& x, std::size_t tokens, std::size_t features)
{
    auto shape = x.shape();
    shape[token_axis<T>] = tokens;
    shape[feature_axis<T>] = features;
    return xt::zeros<double>(shape);
}

/// Zeros before the first token and after the last.
template <Sequence T>
T pad(const T& x, std::size_t margin)
{
    const std::size_t n = x.shape(token_axis<T>), d = x.shape(feature_axis<T>);
    T padded = zeros(x, n + 2 * margin, d);
    for (std::size_t token = 0; token < x.size() / d; ++token)
        std::copy_n(x.data() + token * d, d, padded.data() + (token + (2 * (token / n) + 1) * margin) * d);
    return padded;
}

/// The windows of every stride of n tokens: a window's tokens are next to each other in storage.
template <Sequence T>
T slide(const T& padded, std::size_t n, std::size_t width, std::size_t stride)
{
    const std::size_t d = padded.shape(feature_axis<T>), margin = width / 2, count = (n - 1) / stride + 1;
    T windows = zeros(padded, count, width * d);
    for (std::size_t window = 0; window < windows.size() / (width * d); ++window) {
        const std::size_t sequence = window / count, token = window % count * stride;
        std::copy_n(padded.data() + (sequence * (n + 2 * margin) + token) * d, width * d,
                    windows.data() + window * width * d);
    }
    return windows;
}

std::string formula_of_padded(std::size_t margin)
{
    const std::string zeros = "repeat(0 * x[..., 0:1, :], " + std::to_string(margin) + ", axis=-2)";
    return "concat(" + zeros + ", x, " + zeros + ", axis=-2)";
}

std::string formula_of_windows(std::size_t width, std::size_t n, std::size_t stride)
{
    const std::string step = stride == 1 ? "" : ":" + std::to_string(stride);
    std::string parts;
    for (std::size_t i = 0; i < width; ++i)
        parts += "padded[..., " + std::to_string(i) + ":" + std::to_string(i + n) + step + ", :], ";
    return "concat(" + parts + "axis=-1)";
}

/// Names the input with zeros around it; without any, the input itself.
template <Sequence T>
T padded_input(const T& x, std::size_t margin, const Trace& trace)
{
    if (margin > 0)
        return trace(
            "padded[(b,) n_padded, d_in]", [&] { return formula_of_padded(margin); }, pad(x, margin));
    trace.alias("padded", "x");
    return x;
}

} // namespace

template <Sequence T>
T convolution(const T& given, const ConvolutionWeights& weights, const ConvolutionOptions& options, const Trace& caller)
{
    const std::size_t width = width_of(given, weights), n = given.shape(token_axis<T>);
    const auto& [stride] = options;
    if (stride == 0)
        throw Error("convolution: the stride is 0, expected at least 1");
    const Trace trace = caller.module("convolution", [&, every = stride] {
        StepOptions described{{"width", std::to_string(width)}};
        if (every != 1)
            described.emplace_back("stride", std::to_string(every));
        return described;
    });
    const T& x = trace.input("x[(b,) n, d_in]", given);
    const Matrix& kernel = trace.input("kernel[d_window, d_out]", weights.kernel);
    const Vector* bias = weights.bias ? &trace.input("bias[d_out]", *weights.bias) : nullptr;

    // Lay the neighbours of each token side by side.
    const T padded = padded_input(x, width / 2, trace);
    const T windows = trace(
        "windows[(b,) n, d_window]", [&, every = stride] { return formula_of_windows(width, n, every); },
        slide(padded, n, width, stride));

    // Map each window, all by the same matrix.
    const T product = matmul(windows, kernel);
    if (bias == nullptr)
        return trace("output[(b,) n, d_out]", "windows @ kernel", product);
    return trace("output[(b,) n, d_out]", "windows @ kernel + bias", T(product + *bias));
}

template Matrix convolution(const Matrix&, const ConvolutionWeights&, const ConvolutionOptions&, const Trace&);
template Tensor3 convolution(const Tensor3&, const ConvolutionWeights&, const ConvolutionOptions&, const Trace&);

} // namespace attn
