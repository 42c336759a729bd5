#include "attn/reference/layers/activation.hpp"

#include "attn/reference/ops/activation.hpp"
#include "attn/reference/ops/batch.hpp"

#include <string>

namespace attn {
namespace {

Matrix activated(const Matrix& x, Activation activation)
{
    switch (activation) {
    case Activation::relu:
        return relu(x);
    case Activation::gelu:
        return gelu(x);
    case Activation::gelu_tanh:
        return gelu_tanh(x);
    case Activation::silu:
        return silu(x);
    case Activation::quick_gelu:
        return x * sigmoid(Matrix(1.702 * x));
    }
    return x;
}

} // namespace

std::string formula_of(Activation activation, std::string_view name)
{
    const std::string x(name);
    switch (activation) {
    case Activation::relu:
        return "relu(" + x + ")";
    case Activation::gelu:
        return "0.5 * " + x + " * (1 + erf(" + x + " / sqrt(2)))";
    case Activation::gelu_tanh:
        return "0.5 * " + x + " * (1 + tanh(sqrt(2 / pi) * (" + x + " + 0.044715 * " + x + " ** 3)))";
    case Activation::silu:
        return x + " * sigmoid(" + x + ")";
    case Activation::quick_gelu:
        return x + " * sigmoid(1.702 * " + x + ")";
    }
    return {};
}

std::string_view name_of(Activation activation)
{
    constexpr std::string_view names[] = {"relu", "gelu", "gelu-tanh", "silu", "quick-gelu"};
    return names[static_cast<std::size_t>(activation)];
}

template <Sequence T>
T activate(std::string_view step, std::string_view name, const T& x, Activation activation, const Trace& trace)
{
    return trace(
        step, [&] { return formula_of(activation, name); },
        token_by_token(x, [&](const Matrix& rows) { return activated(rows, activation); }));
}

template Matrix activate(std::string_view, std::string_view, const Matrix&, Activation, const Trace&);
template Tensor3 activate(std::string_view, std::string_view, const Tensor3&, Activation, const Trace&);

} // namespace attn
