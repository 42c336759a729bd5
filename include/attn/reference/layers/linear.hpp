#pragma once

#include "attn/core/tensor.hpp"
#include "attn/core/trace.hpp"

#include <optional>
#include <string_view>

namespace attn {

/// The learned parameters of a linear map.
struct LinearWeights {
    Matrix weight;                   ///< (d_in, d_out): x @ weight. PyTorch stores the transpose, (d_out, d_in)
    std::optional<Vector> bias = {}; ///< (d_out)
};

/// The names of a linear map's steps inside a larger function.
struct LinearSteps {
    std::string_view input = "x"; ///< the step that is mapped, which the caller has named; a term has its own name
    std::string_view name = {};   ///< "query": the steps are query_weights, query_bias and query
    std::string_view d_in = "d_in";
    std::string_view d_out = "d_out";
    std::string_view tokens = "n"; ///< the letter of the output's axis of tokens
    std::string_view output = {};  ///< the output where it is not called like the map
};

/// A linear map of every token: x W + b.
///
/// @param x        ((b,) n, d_in)
/// @param weights  weight and bias
/// @param steps    the names of the steps; the caller has to name the input
/// @param trace    | step   | shape           | formula           |
///                 |--------|-----------------|-------------------|
///                 | weight | (d_in, d_out)   |                   |
///                 | bias   | (d_out,)        |                   |
///                 | output | ((b,) n, d_out) | x @ weight + bias |
/// @return ((b,) n, d_out)
/// @throws ShapeError where x and weight disagree in d_in, or weight and bias in d_out
template <Sequence T>
T linear(const T& x, const LinearWeights& weights, const LinearSteps& steps = {}, const Trace& trace = {});
ATTN_REFUSE_OTHER_TENSORS(linear);

} // namespace attn
