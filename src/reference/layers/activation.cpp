#include "attn/reference/layers/activation.hpp"

#include "attn/core/choices.hpp"
#include "attn/reference/ops/activation.hpp"
#include "attn/reference/ops/batch.hpp"

#include <string>

namespace attn {
namespace {

/// An activation: its name, its formula with {} in place of the input's name, and what computes it.
struct ActivationRow {
    Activation choice;
    std::string_view name, formula;
    Matrix (*function)(const Matrix& x);
};

constexpr ActivationRow activations[] = {
    {Activation::relu, "relu", "relu({})", relu},
    {Activation::gelu, "gelu", "0.5 * {} * (1 + erf({} / sqrt(2)))", gelu},
    {Activation::gelu_tanh, "gelu-tanh", "0.5 * {} * (1 + tanh(sqrt(2 / pi) * ({} + 0.044715 * {} ** 3)))", gelu_tanh},
    {Activation::silu, "silu", "{} * sigmoid({})", silu},
    {Activation::quick_gelu, "quick-gelu", "{} * sigmoid(1.702 * {})", quick_gelu},
    {Activation::gelu_bloom, "gelu-bloom", "0.5 * {} * (1 + tanh(0.79788456 * ({} + 0.044715 * {} ** 3)))", gelu_bloom},
};

} // namespace

std::string_view name_of(Activation activation) { return row_for<activations>(activation).name; }

std::string formula_of(Activation activation, std::string_view name)
{
    std::string formula(row_for<activations>(activation).formula);
    for (std::size_t at = formula.find("{}"); at != std::string::npos; at = formula.find("{}", at + name.size()))
        formula.replace(at, 2, name);
    return formula;
}

template <Sequence T>
Term<T> activate(std::string_view step, const Term<T>& x, Activation activation, const Trace& trace)
{
    return trace(
        step, [&] { return formula_of(activation, trace.say(x.wording())); },
        Term(token_by_token(*x, row_for<activations>(activation).function)));
}

template <Sequence T>
T activate(std::string_view step, std::string_view name, const T& x, Activation activation, const Trace& trace)
{
    return T(activate(step, named(x, name, trace), activation, trace));
}

template Matrix activate(std::string_view, std::string_view, const Matrix&, Activation, const Trace&);
template Tensor3 activate(std::string_view, std::string_view, const Tensor3&, Activation, const Trace&);
template Term<Matrix> activate(std::string_view, const Term<Matrix>&, Activation, const Trace&);
template Term<Tensor3> activate(std::string_view, const Term<Tensor3>&, Activation, const Trace&);

} // namespace attn
