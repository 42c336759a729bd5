#pragma once

#include "attn/core/tensor.hpp"
#include "attn/core/trace.hpp"

namespace attn {

/// The learned parameters of new_layer().
struct NewLayerWeights {
    Vector gain; ///< (d_model)
};

/// What it computes, in a sentence.
///
/// @param x        ((b,) n, d_model)
/// @param weights  gain
/// @param trace    | step   | shape             | formula  |
///                 |--------|-------------------|----------|
///                 | x      | ((b,) n, d_model) |          |
///                 | gain   | (d_model,)        |          |
///                 | output | ((b,) n, d_model) | x * gain |
/// @return ((b,) n, d_model)
/// @throws ShapeError where x and gain disagree in d_model
/// @see its paper
template <Sequence T>
T new_layer(const T& x, const NewLayerWeights& weights, const Trace& trace = {});
ATTN_REFUSE_OTHER_TENSORS(new_layer);

} // namespace attn
