#include "attn/reference/layers/new_layer.hpp"

#include "attn/core/shape.hpp"
#include "attn/reference/ops/terms.hpp"

namespace attn {

template <Sequence T>
T new_layer(const T& tokens, const NewLayerWeights& weights, const Trace& caller)
{
    expect_agreement("new_layer", "d_model", {"x", tokens, feature_axis<T>}, {"gain", weights.gain, 0});
    const Trace trace = caller.module("new_layer");
    const Term x = trace.input("x[(b,) n, d_model]", Term(tokens));

    // Multiply each feature by its gain.
    const Term gain = trace.input("gain[d_model]", Term(weights.gain));
    return T(trace("output[(b,) n, d_model]", x * gain));
}

ATTN_MAKE_FOR_SEQUENCES(new_layer)

} // namespace attn
