#include "attn/layers/feed_forward.hpp"

#include "attn/ops/activation.hpp"
#include "attn/ops/batch.hpp"

#include <string>

namespace attn {
namespace {

Matrix activate(const Matrix& hidden, Activation activation)
{
    switch (activation) {
    case Activation::relu:
        return relu(hidden);
    case Activation::gelu:
        return gelu(hidden);
    case Activation::gelu_tanh:
        return gelu_tanh(hidden);
    }
    return hidden;
}

std::string_view activation_formula(Activation activation)
{
    switch (activation) {
    case Activation::relu:
        return "relu(hidden)";
    case Activation::gelu:
        return "0.5 * hidden * (1 + erf(hidden / sqrt(2)))";
    case Activation::gelu_tanh:
        return "0.5 * hidden * (1 + tanh(sqrt(2 / pi) * (hidden + 0.044715 * hidden ** 3)))";
    }
    return {};
}

} // namespace

std::string_view name_of(Activation activation)
{
    constexpr std::string_view names[] = {"relu", "gelu", "gelu-tanh"};
    return names[static_cast<std::size_t>(activation)];
}

template <Sequence T>
T feed_forward(const T& tokens, const FeedForwardWeights& weights, const FeedForwardOptions& options,
               const Trace& caller)
{
    const Trace trace = caller.module("feed_forward", [&] {
        return StepOptions{{"activation", std::string(name_of(options.activation))}};
    });
    const T& x = trace.input("x[(b,) n, d_model]", tokens);

    // Widen: each hidden unit looks for one pattern in the token.
    const T hidden = linear(x, weights.hidden, {"x", "hidden", "d_model", "d_ff"}, trace);
    const T activated =
        trace("activated[(b,) n, d_ff]", activation_formula(options.activation),
              token_by_token(hidden, [&](const Matrix& units) { return activate(units, options.activation); }));

    // Narrow: each pattern that was found adds its own row.
    return linear(activated, weights.output, {"activated", "output", "d_ff", "d_model"}, trace);
}

template Matrix feed_forward(const Matrix&, const FeedForwardWeights&, const FeedForwardOptions&, const Trace&);
template Tensor3 feed_forward(const Tensor3&, const FeedForwardWeights&, const FeedForwardOptions&, const Trace&);

} // namespace attn
