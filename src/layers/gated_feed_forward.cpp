#include "attn/layers/gated_feed_forward.hpp"

#include "attn/ops/activation.hpp"
#include "attn/ops/batch.hpp"
#include "attn/shape.hpp"

namespace attn {
namespace {

template <Sequence T>
T feed(const T& x, const GatedFeedForwardWeights& weights, const Trace& caller)
{
    expect_agreement("gated_feed_forward", "d_ff", {"gate weights", weights.gate.weight, 1},
                     {"up weights", weights.up.weight, 1});
    const Trace trace = caller.module("gated_feed_forward", [] { return StepOptions{{"activation", "silu"}}; });
    trace.input("x[(b,) n, d_model]", x);

    // How far each hidden unit opens.
    const T gate = linear(x, weights.gate,
                          {.input = "x",
                           .weight = "gate_weights[d_model, d_ff]",
                           .bias = "gate_bias[d_ff]",
                           .output = "gate[(b,) n, d_ff]"},
                          trace);
    const T activated = trace("activated[(b,) n, d_ff]", "gate * sigmoid(gate)", token_by_token(gate, silu));

    // What it holds, and what of that passes.
    const T up = linear(
        x, weights.up,
        {.input = "x", .weight = "up_weights[d_model, d_ff]", .bias = "up_bias[d_ff]", .output = "up[(b,) n, d_ff]"},
        trace);
    const T gated = trace("gated[(b,) n, d_ff]", "activated * up", T(activated * up));

    return linear(gated, weights.down,
                  {.input = "gated",
                   .weight = "down_weights[d_ff, d_model]",
                   .bias = "down_bias[d_model]",
                   .output = "output[(b,) n, d_model]"},
                  trace);
}

} // namespace

Matrix gated_feed_forward(const Matrix& x, const GatedFeedForwardWeights& weights, const Trace& trace)
{
    return feed(x, weights, trace);
}

Tensor3 gated_feed_forward(const Tensor3& x, const GatedFeedForwardWeights& weights, const Trace& trace)
{
    return feed(x, weights, trace);
}

} // namespace attn
