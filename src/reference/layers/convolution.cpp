#include "attn/reference/layers/convolution.hpp"

#include "attn/core/error.hpp"
#include "attn/core/shape.hpp"
#include "attn/reference/ops/terms.hpp"

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
        throw ShapeError("convolution: kernel ", shape_of(weights.kernel), " and x ", shape_of(x),
                         " do not fit, expected d_in = ", d_in, " rows for each of an odd number of tokens");
    if (x.shape(token_axis<T>) == 0)
        throw ShapeError("convolution: x ", shape_of(x), " has no tokens, expected at least one");
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

std::string formula_of_windows(std::size_t width, std::size_t n, std::size_t stride)
{
    const std::string step = stride == 1 ? "" : ":" + std::to_string(stride);
    std::string parts;
    for (std::size_t i = 0; i < width; ++i)
        parts += "padded[..., " + std::to_string(i) + ":" + std::to_string(i + n) + step + ", :], ";
    return "concat(" + parts + "axis=-1)";
}

} // namespace

template <Sequence T>
T convolution(const T& tokens, const ConvolutionWeights& weights, const ConvolutionOptions& options,
              const Trace& caller)
{
    const std::size_t width = width_of(tokens, weights), n = tokens.shape(token_axis<T>);
    const auto& [stride] = options;
    if (stride == 0)
        throw Error("convolution: the stride is 0, expected at least 1");
    const Trace trace = caller.module("convolution", [&, every = stride] {
        StepOptions described{{"width", std::to_string(width)}};
        if (every != 1)
            described.emplace_back("stride", std::to_string(every));
        return described;
    });
    const Term x = trace.input("x[(b,) n, d_in]", Term(tokens));
    const Term kernel = trace.input("kernel[d_window, d_out]", Term(weights.kernel));
    std::optional<Term<Vector>> bias;
    if (weights.bias)
        bias = trace.input("bias[d_out]", Term(*weights.bias));

    // Lay the neighbours of each token side by side; beyond the ends there are zeros.
    const std::size_t margin = width / 2;
    const Term padded =
        margin == 0 ? trace.alias("padded", x) : trace("padded[(b,) n_padded, d_in]", pad(x, margin, margin, -2));
    const Term windows = trace( // each in one piece of storage
        "windows[(b,) n, d_window]", [&, every = stride] { return formula_of_windows(width, n, every); },
        Term(slide(*padded, n, width, stride)));

    // Map each window, all by the same matrix.
    const Term product = matmul(windows, kernel);
    return T(trace("output[(b,) n, d_out]", bias ? product + *bias : product));
}

ATTN_MAKE_FOR_SEQUENCES(convolution)

} // namespace attn
