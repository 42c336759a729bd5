#pragma once

#include "attn/core/tensor.hpp"
#include "attn/reference/layers/linear.hpp"

#include <concepts>
#include <optional>
#include <vector>

namespace attn {

/// One token, (d), or the tokens of all sequences of a batch at one place, (b, d).
template <class T>
concept Token = std::same_as<T, Vector> || std::same_as<T, Matrix>;

/// The type of one token of a sequence, and of a cell's state after it.
template <Sequence T>
using TokenOf = std::conditional_t<std::same_as<T, Matrix>, Vector, Matrix>;

/// The learned parameters of a recurrent cell, the columns of its gates side by side.
///
/// A GRU has three gates, in the order reset, update, candidate; an LSTM has four: input, forget, candidate, output.
/// That is PyTorch's order; Keras has update before reset.
struct RecurrentCellWeights {
    LinearWeights input;     ///< of the token: (d_in, d_gates), with d_gates = 3 d_hidden or 4 d_hidden
    LinearWeights recurrent; ///< of the hidden state: (d_hidden, d_gates)
};

/// The learned parameters of one recurrent layer: a cell for each direction in which it reads.
struct RecurrentLayerWeights {
    std::optional<RecurrentCellWeights> forward = {};
    std::optional<RecurrentCellWeights> backward = {};
};

/// The learned parameters of recurrent layers on top of each other: each reads the output of the one below.
struct RecurrentWeights {
    std::vector<RecurrentLayerWeights> layers;
};

} // namespace attn
