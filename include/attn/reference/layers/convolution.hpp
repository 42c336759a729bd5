#pragma once

#include "attn/core/tensor.hpp"
#include "attn/core/trace.hpp"

#include <cstddef>
#include <optional>

namespace attn {

/// The learned parameters of a convolution along the tokens.
struct ConvolutionWeights {
    Matrix kernel; ///< (d_window, d_out), d_window = width d_in: the rows of the window's tokens, one after the other
    std::optional<Vector> bias = {}; ///< (d_out)
};

/// Options of convolution().
struct ConvolutionOptions {
    std::size_t stride = 1; ///< from one window to the next: of 2, every second token has an output
};

/// A convolution along the tokens: each output is the same linear map of a window of inputs around its token.
///
/// With a width of three, y_t = f(x_{t-1}, x_t, x_{t+1}); beyond the ends there are zeros. With a width of one it is
/// linear().
///
/// @param x        ((b,) n, d_in), at least one token
/// @param weights  the kernel, whose rows give the width of the window: an odd number of tokens
/// @param options  stride
/// @param trace    | step    | shape                 | formula                                                      |
///                 |---------|-----------------------|--------------------------------------------------------------|
///                 | x       | ((b,) n, d_in)        |                                                              |
///                 | kernel  | (d_window, d_out)     |                                                              |
///                 | bias    | (d_out,)              |                                                              |
///                 | padded  | ((b,) n_padded, d_in) | pad(x, 1, 1, axis=-2)                                        |
///                 | windows | ((b,) n, d_window)    | concat(padded[..., 0:4, :], padded[..., 1:5, :], padded[..., 2:6, :], axis=-1) |
///                 | output  | ((b,) n, d_out)       | windows @ kernel + bias                                      |
///
///                 for four tokens and a width of three; with a width of one, `padded` is x; with a
///                 stride of two, the windows are of `padded[..., 0:4:2, :]` and so on
/// @return ((b,) n, d_out), or for each stride of tokens one
/// @throws ShapeError where the window is not an odd number of tokens, there is no token, or the bias does not fit
/// @throws Error      where the stride is 0
/// @see document 001 of docs/sources.md; Gehring et al. 2017
template <Sequence T>
T convolution(const T& x, const ConvolutionWeights& weights, const ConvolutionOptions& options = {},
              const Trace& trace = {});
ATTN_REFUSE_OTHER_TENSORS(convolution);

} // namespace attn
