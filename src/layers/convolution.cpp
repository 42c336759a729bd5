#include "attn/layers/convolution.hpp"

#include "attn/ops/concat.hpp"
#include "attn/ops/matmul.hpp"
#include "attn/shape.hpp"

#include <string>
#include <vector>

namespace attn {
namespace {

template <Sequence T>
constexpr std::size_t tokens = std::same_as<T, Matrix> ? 0 : 1; // the axis of tokens; features follow

/// How many tokens a kernel looks at.
template <Sequence T>
std::size_t width_of(const T& x, const ConvolutionWeights& weights)
{
    const std::size_t rows = weights.kernel.shape(0), d_in = x.shape(tokens<T> + 1);
    if (d_in == 0 || rows % d_in != 0 || rows / d_in % 2 == 0)
        throw ShapeError("convolution: kernel " + to_string(shape_of(weights.kernel)) + " and x " +
                         to_string(shape_of(x)) + " do not fit, expected d_in = " + std::to_string(d_in) +
                         " rows for each of an odd number of tokens");
    if (x.shape(tokens<T>) == 0)
        throw ShapeError("convolution: x " + to_string(shape_of(x)) + " has no tokens, expected at least one");
    if (weights.bias)
        expect_agreement("convolution", "d_out", {"kernel", weights.kernel, 1}, {"bias", *weights.bias, 0});
    return rows / d_in;
}

Matrix rows_of(const Matrix& x, std::size_t begin, std::size_t end)
{
    return xt::view(x, xt::range(begin, end), xt::all());
}

Tensor3 rows_of(const Tensor3& x, std::size_t begin, std::size_t end)
{
    return xt::view(x, xt::all(), xt::range(begin, end), xt::all());
}

/// Zeros in front of the first token and behind the last.
Matrix pad(const Matrix& x, std::size_t margin)
{
    Matrix padded = xt::zeros<double>({x.shape(0) + 2 * margin, x.shape(1)});
    xt::view(padded, xt::range(margin, margin + x.shape(0)), xt::all()) = x;
    return padded;
}

Tensor3 pad(const Tensor3& x, std::size_t margin)
{
    Tensor3 padded = xt::zeros<double>({x.shape(0), x.shape(1) + 2 * margin, x.shape(2)});
    xt::view(padded, xt::all(), xt::range(margin, margin + x.shape(1)), xt::all()) = x;
    return padded;
}

std::string padding(std::size_t margin)
{
    if (margin == 0)
        return "x";
    const std::string zeros = "repeat(0 * x[..., 0:1, :], " + std::to_string(margin) + ", axis=-2)";
    return "concat(" + zeros + ", x, " + zeros + ", axis=-2)";
}

std::string sliding(std::size_t width, std::size_t n)
{
    std::string parts;
    for (std::size_t i = 0; i < width; ++i)
        parts += "padded[..., " + std::to_string(i) + ":" + std::to_string(i + n) + ", :], ";
    return "concat(" + parts + "axis=-1)";
}

template <Sequence T>
T convolve(const T& x, const ConvolutionWeights& weights, const Trace& caller)
{
    const std::size_t width = width_of(x, weights), n = x.shape(tokens<T>);
    const Trace trace = caller.module("convolution", [&] { return StepOptions{{"width", std::to_string(width)}}; });
    trace.input("x[(b,) n, d_in]", x);
    trace.input("kernel[d_window, d_out]", weights.kernel);
    if (weights.bias)
        trace.input("bias[d_out]", *weights.bias);

    // Lay the neighbours of each token side by side.
    const T padded = trace(
        "padded[(b,) n_padded, d_in]", [&] { return padding(width / 2); }, pad(x, width / 2));
    std::vector<T> shifted;
    for (std::size_t i = 0; i < width; ++i)
        shifted.push_back(rows_of(padded, i, i + n));
    const T windows = trace(
        "windows[(b,) n, d_window]", [&] { return sliding(width, n); }, concat_columns(shifted));

    // Then it is a linear map, the same for every window.
    const T product = matmul(windows, weights.kernel);
    if (!weights.bias)
        return trace("output[(b,) n, d_out]", "windows @ kernel", product);
    return trace("output[(b,) n, d_out]", "windows @ kernel + bias", T(product + *weights.bias));
}

} // namespace

Matrix convolution(const Matrix& x, const ConvolutionWeights& weights, const Trace& trace)
{
    return convolve(x, weights, trace);
}

Tensor3 convolution(const Tensor3& x, const ConvolutionWeights& weights, const Trace& trace)
{
    return convolve(x, weights, trace);
}

} // namespace attn
