#include "attn/reference/layers/gated_feed_forward.hpp"

#include "attn/core/shape.hpp"
#include "attn/reference/layers/activation.hpp"

namespace attn {

template <Sequence T>
T gated_feed_forward(const T& tokens, const GatedFeedForwardWeights& weights, const GatedFeedForwardOptions& options,
                     const Trace& caller)
{
    expect_agreement("gated_feed_forward", "d_ff", {"gate weights", weights.gate.weight, 1},
                     {"up weights", weights.up.weight, 1});
    const Trace trace = caller.module("gated_feed_forward", [&] {
        return StepOptions{{"activation", std::string(name_of(options.activation))}};
    });
    const T& x = trace.input("x[(b,) n, d_model]", tokens);

    // Compute the gate of each hidden unit.
    const T gate = linear(x, weights.gate, {"x", "gate", "d_model", "d_ff"}, trace);
    const T activated = activate("activated[(b,) n, d_ff]", "gate", gate, options.activation, trace);

    // Multiply each hidden unit by its gate.
    const T up = linear(x, weights.up, {"x", "up", "d_model", "d_ff"}, trace);
    const T gated = trace("gated[(b,) n, d_ff]", "activated * up", T(activated * up));

    return linear(gated, weights.down, {"gated", "down", "d_ff", "d_model", "n", "output"}, trace);
}

template Matrix gated_feed_forward(const Matrix&, const GatedFeedForwardWeights&, const GatedFeedForwardOptions&,
                                   const Trace&);
template Tensor3 gated_feed_forward(const Tensor3&, const GatedFeedForwardWeights&, const GatedFeedForwardOptions&,
                                    const Trace&);

} // namespace attn
