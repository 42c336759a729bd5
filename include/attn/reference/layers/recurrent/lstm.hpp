#pragma once

#include "attn/core/trace.hpp"
#include "attn/reference/layers/recurrent/recurrent.hpp"

#include <optional>
#include <type_traits>

namespace attn {

/// The state that an LSTM carries from one token to the next.
template <class T>
struct LstmStateOf {
    T hidden; ///< its output: ((b,) d_hidden), or of several cells (cells, (b,) d_hidden)
    T cell;   ///< its memory, of the same shape
};

/// One step of an LSTM (long short-term memory): hidden state and cell after one more token.
///
/// The forget gate says how much of the previous cell is kept, the input gate how much of the candidate is added, the
/// output gate how much of the new cell becomes the hidden state.
///
/// @param x         ((b,) d_in)
/// @param previous  hidden and cell, ((b,) d_hidden) each
/// @param weights   four gates: input, forget, candidate, output
/// @param trace     | step              | shape                | formula                                                    |
///                  |-------------------|----------------------|------------------------------------------------------------|
///                  | x                 | ((b,) d_in)          |                                                            |
///                  | previous_hidden   | ((b,) d_hidden)      |                                                            |
///                  | previous_cell     | ((b,) d_hidden)      |                                                            |
///                  | input_weights     | (d_in, d_gates)      |                                                            |
///                  | input_bias        | (d_gates,)           |                                                            |
///                  | recurrent_weights | (d_hidden, d_gates)  |                                                            |
///                  | recurrent_bias    | (d_gates,)           |                                                            |
///                  | input_part        | ((b,) d_gates)       | x @ input_weights + input_bias                             |
///                  | recurrent_part    | ((b,) d_gates)       | previous_hidden @ recurrent_weights + recurrent_bias       |
///                  | input_gate        | ((b,) d_hidden)      | sigmoid(input_part[..., 0:2] + recurrent_part[..., 0:2])   |
///                  | forget_gate       | ((b,) d_hidden)      | sigmoid(input_part[..., 2:4] + recurrent_part[..., 2:4])   |
///                  | candidate         | ((b,) d_hidden)      | tanh(input_part[..., 4:6] + recurrent_part[..., 4:6])      |
///                  | output_gate       | ((b,) d_hidden)      | sigmoid(input_part[..., 6:8] + recurrent_part[..., 6:8])   |
///                  | cell              | ((b,) d_hidden)      | forget_gate * previous_cell + input_gate * candidate       |
///                  | hidden            | ((b,) d_hidden)      | output_gate * tanh(cell)                                   |
///
///                  with the columns of d_hidden = 2
/// @return the new state
/// @throws ShapeError where x, the state and the weights disagree
/// @see Hochreiter and Schmidhuber 1997; Gers, Schmidhuber and Cummins 2000 for the forget gate; document 003 of docs/sources.md
template <Token T>
LstmStateOf<T> lstm_cell(const T& x, const LstmStateOf<T>& previous, const RecurrentCellWeights& weights,
                         const Trace& trace = {});

/// Results of lstm().
template <Sequence T>
struct LstmOf {
    T output; ///< ((b,) n, d_out): the last layer's hidden state after each token; directions side by side
    LstmStateOf<T>
        final; ///< (cells, (b,) d_hidden) each: each cell's last state, layer by layer, forward before backward
};
using Lstm = LstmOf<Matrix>;
using BatchLstm = LstmOf<Tensor3>;

/// An LSTM over a sequence, token by token.
///
/// @param x        ((b,) n, d_in), at least one token
/// @param initial  hidden and cell to start from, (cells, (b,) d_hidden) each; zeros by default
/// @param lengths  (b), of a batch only: how many tokens of each sequence are real; all of them by default
/// @param weights  of one layer or more
/// @param trace    as gru(), with the steps of lstm_cell(); `initial_cell` after `initial_hidden`, `previous_cell` after
///                 each `previous_hidden`, `kept_cell` after each `kept_hidden`, `final_cell` after `final_hidden`
/// @throws ShapeError where x, the states, the weights and the lengths disagree
/// @see Hochreiter and Schmidhuber 1997; document 003 of docs/sources.md
template <Sequence T>
LstmOf<T> lstm(const T& x, const std::optional<LstmStateOf<std::type_identity_t<T>>>& initial,
               const std::optional<Integers>& lengths, const RecurrentWeights& weights, const Trace& trace = {});

/// The same from zeros, without padding.
template <Sequence T>
LstmOf<T> lstm(const T& x, const RecurrentWeights& weights, const Trace& trace = {})
{
    return lstm(x, {}, {}, weights, trace);
}
ATTN_REFUSE_OTHER_TENSORS(lstm);

} // namespace attn
