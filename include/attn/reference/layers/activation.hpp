#pragma once

#include "attn/core/tensor.hpp"
#include "attn/core/trace.hpp"
#include "attn/reference/layers/activation_kind.hpp"

#include <string>
#include <string_view>

namespace attn {

/// The function between the maps of a feed-forward network, number by number. A new one stands at the end.
enum class Activation : unsigned char {
    relu,       ///< max(x, 0), as in Vaswani et al. 2017
    gelu,       ///< x times the normal distribution function, exactly
    gelu_tanh,  ///< the same, approximated by tanh
    silu,       ///< x sigmoid(x), also called swish
    quick_gelu, ///< x sigmoid(1.702 x), another approximation of gelu
    gelu_bloom  ///< gelu_tanh with 0.79788456 for sqrt(2 / pi), as BLOOM has it
};
static_assert(default_activation == Activation::relu && default_gate_activation == Activation::silu);

/// Its formula, of the step of that name: "hidden * sigmoid(hidden)".
std::string formula_of(Activation activation, std::string_view name);

/// An activation of each feature of each token.
/// @param step   label of the output: "activated[(b,) n, d_ff]"
/// @param name   name of the input's step: "hidden"
/// @param x      ((b,) n, d)
/// @param trace  | activation | formula                                                            |
///               |------------|--------------------------------------------------------------------|
///               | relu       | relu(x)                                                            |
///               | gelu       | 0.5 * x * (1 + erf(x / sqrt(2)))                                   |
///               | gelu-tanh  | 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))       |
///               | silu       | x * sigmoid(x)                                                     |
///               | quick-gelu | x * sigmoid(1.702 * x)                                             |
///               | gelu-bloom | 0.5 * x * (1 + tanh(0.79788456 * (x + 0.044715 * x ** 3)))         |
/// @return ((b,) n, d)
/// @see Hendrycks and Gimpel 2016, for all but the first
template <Sequence T>
T activate(std::string_view step, std::string_view name, const T& x, Activation activation, const Trace& trace = {});
/// The same for a term, which has a name.
template <Sequence T>
Term<T> activate(std::string_view step, const Term<T>& x, Activation activation, const Trace& trace);

} // namespace attn
