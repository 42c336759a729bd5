#include "attn/layers/gated_feed_forward.hpp"

#include "attn/ops/activation.hpp"
#include "attn/ops/batch.hpp"
#include "attn/shape.hpp"

namespace attn {

template <Sequence T>
T gated_feed_forward(const T& tokens, const GatedFeedForwardWeights& weights, const Trace& caller)
{
    expect_agreement("gated_feed_forward", "d_ff", {"gate weights", weights.gate.weight, 1},
                     {"up weights", weights.up.weight, 1});
    const Trace trace = caller.module("gated_feed_forward", [] { return StepOptions{{"activation", "silu"}}; });
    const T& x = trace.input("x[(b,) n, d_model]", tokens);

    // Compute how far each hidden unit opens.
    const T gate = linear(x, weights.gate, {"x", "gate", "d_model", "d_ff"}, trace);
    const T activated = trace("activated[(b,) n, d_ff]", "gate * sigmoid(gate)", token_by_token(gate, silu));

    // Let so much of what it holds pass.
    const T up = linear(x, weights.up, {"x", "up", "d_model", "d_ff"}, trace);
    const T gated = trace("gated[(b,) n, d_ff]", "activated * up", T(activated * up));

    return linear(gated, weights.down, {"gated", "down", "d_ff", "d_model", "n", "output"}, trace);
}

template Matrix gated_feed_forward(const Matrix&, const GatedFeedForwardWeights&, const Trace&);
template Tensor3 gated_feed_forward(const Tensor3&, const GatedFeedForwardWeights&, const Trace&);

} // namespace attn
