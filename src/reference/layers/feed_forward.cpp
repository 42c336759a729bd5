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
    const Term x = trace.input("x[(b,) n, d_model]", Term(tokens));

    // Map each token to the hidden units, and those back to the features.
    const Term hidden = linear(x, weights.hidden, {"x", "hidden", "d_model", "d_ff"}, trace);
    const Term activated = activate("activated[(b,) n, d_ff]", hidden, options.activation, trace);
    return T(linear(activated, weights.output, {"activated", "output", "d_ff", "d_model"}, trace));
}

ATTN_MAKE_FOR_SEQUENCES(feed_forward)

} // namespace attn
