#include "attn/layers/feed_forward.hpp"

#include "attn/ops/activation.hpp"
#include "attn/ops/batch.hpp"

#include <string>

namespace attn {
namespace {

Matrix bend(const Matrix& hidden, Activation activation)
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

std::string_view bending(Activation activation)
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

template <Sequence T>
T feed(const T& x, const FeedForwardWeights& weights, const FeedForwardOptions& options, const Trace& caller)
{
    const Trace trace = caller.module("feed_forward", [&] {
        return StepOptions{{"activation", std::string(name_of(options.activation))}};
    });
    trace.input("x[(b,) n, d_model]", x);

    // Widen: each hidden unit looks for one pattern in the token.
    const T hidden = linear(x, weights.hidden,
                            {.input = "x",
                             .weight = "hidden_weights[d_model, d_ff]",
                             .bias = "hidden_bias[d_ff]",
                             .output = "hidden[(b,) n, d_ff]"},
                            trace);
    const T activated =
        trace("activated[(b,) n, d_ff]", bending(options.activation),
              token_by_token(hidden, [&](const Matrix& tokens) { return bend(tokens, options.activation); }));

    // Narrow: each pattern that was found adds its own row.
    return linear(activated, weights.output,
                  {.input = "activated",
                   .weight = "output_weights[d_ff, d_model]",
                   .bias = "output_bias[d_model]",
                   .output = "output[(b,) n, d_model]"},
                  trace);
}

} // namespace

std::string_view name_of(Activation activation)
{
    constexpr std::string_view names[] = {"relu", "gelu", "gelu-tanh"};
    return names[static_cast<std::size_t>(activation)];
}

Matrix feed_forward(const Matrix& x, const FeedForwardWeights& weights, const FeedForwardOptions& options,
                    const Trace& trace)
{
    return feed(x, weights, options, trace);
}

Tensor3 feed_forward(const Tensor3& x, const FeedForwardWeights& weights, const FeedForwardOptions& options,
                     const Trace& trace)
{
    return feed(x, weights, options, trace);
}

} // namespace attn
