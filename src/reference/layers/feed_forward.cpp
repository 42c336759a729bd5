#include "attn/reference/layers/feed_forward.hpp"

#include "attn/reference/layers/activation.hpp"

#include <string>

namespace attn {

template <Sequence T>
T feed_forward(const T& tokens, const FeedForwardWeights& weights, const FeedForwardOptions& options,
               const Trace& caller)
{
    const Trace trace = caller.module("feed_forward", [&] {
        return StepOptions{{"activation", std::string(name_of(options.activation))}};
    });
    const T& x = trace.input("x[(b,) n, d_model]", tokens);

    // Map each token to the hidden units.
    const T hidden = linear(x, weights.hidden, {"x", "hidden", "d_model", "d_ff"}, trace);
    const T activated = activate("activated[(b,) n, d_ff]", "hidden", hidden, options.activation, trace);

    // Map the hidden units back to the features.
    return linear(activated, weights.output, {"activated", "output", "d_ff", "d_model"}, trace);
}

template Matrix feed_forward(const Matrix&, const FeedForwardWeights&, const FeedForwardOptions&, const Trace&);
template Tensor3 feed_forward(const Tensor3&, const FeedForwardWeights&, const FeedForwardOptions&, const Trace&);

} // namespace attn
