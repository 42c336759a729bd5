#pragma once

#include "attn/layers/recurrent/cell.hpp"

namespace attn::recurrent {

/// @name A step of a cell whose inputs and weights the caller has named
/// @param trace  of the step; the weights may be named in a scope around it
/// @{
template <Token T>
T gru_step(const T& x, const T& previous_hidden, const RecurrentCellWeights& weights, const GruCellOptions& options,
           const Trace& trace);
template <Token T>
LstmStateOf<T> lstm_step(const T& x, const LstmStateOf<T>& previous, const RecurrentCellWeights& weights,
                         const Trace& trace);
/// @}

/// Names the weights of a cell in a scope.
void name_weights(const RecurrentCellWeights& weights, const Trace& trace);

} // namespace attn::recurrent
