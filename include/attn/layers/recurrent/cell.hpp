#pragma once

#include "attn/layers/linear.hpp"
#include "attn/tensor.hpp"
#include "attn/trace.hpp"

#include <concepts>

namespace attn {

/// One token, (d), or the tokens of several sequences at the same place, (b, d).
template <class T>
concept Token = std::same_as<T, Vector> || std::same_as<T, Matrix>;

/// The learned parameters of a recurrent cell: its gates' columns side by side.
///
/// A GRU has three, in the order reset, update, candidate; an LSTM has four: input, forget, candidate, output. That is
/// PyTorch's order; Keras has update before reset.
struct RecurrentCellWeights {
    LinearWeights input;     ///< of the token: (d_in, d_gates), with d_gates = 3 d_hidden or 4 d_hidden
    LinearWeights recurrent; ///< of the state: (d_hidden, d_gates)
};

/// Where the reset gate of a GRU acts.
enum class ResetGate {
    after_product, ///< r * (h U + b): PyTorch, and Keras unless told `reset_after=False`; one product a step does
    before_product ///< (r * h) U + b: Cho et al. 2014, seed document 003, and Keras with `reset_after=False`
};

/// What gru_cell() may be told.
struct GruCellOptions {
    ResetGate reset = ResetGate::after_product;
};

/// One step of a GRU: a gate that says what of the past the candidate sees, and one that mixes past and candidate.
///
/// The state is a weighted mean of what it was and of the candidate, feature by feature: with the update gate at one
/// nothing changes, with both gates at zero the past is forgotten. That is how PyTorch and Cho et al. count; others, such
/// as Chung et al. 2014, have `1 - update` for `update`, which is the same cell with that gate's weights negated.
///
/// @param x                ((b,) d_in)
/// @param previous_hidden  ((b,) d_hidden)
/// @param weights          three gates: reset, update, candidate
/// @param options          where the reset gate acts
/// @param trace            | step              | shape                | formula                                                    |
///                         |-------------------|----------------------|------------------------------------------------------------|
///                         | x                 | ((b,) d_in)          |                                                            |
///                         | previous_hidden   | ((b,) d_hidden)      |                                                            |
///                         | input_weights     | (d_in, d_gates)      |                                                            |
///                         | input_bias        | (d_gates,)           |                                                            |
///                         | recurrent_weights | (d_hidden, d_gates)  |                                                            |
///                         | recurrent_bias    | (d_gates,)           |                                                            |
///                         | input_part        | ((b,) d_gates)       | x @ input_weights + input_bias                             |
///                         | recurrent_part    | ((b,) d_gates)       | previous_hidden @ recurrent_weights + recurrent_bias       |
///                         | reset             | ((b,) d_hidden)      | sigmoid(input_part[..., 0:2] + recurrent_part[..., 0:2])   |
///                         | update            | ((b,) d_hidden)      | sigmoid(input_part[..., 2:4] + recurrent_part[..., 2:4])   |
///                         | candidate         | ((b,) d_hidden)      | tanh(input_part[..., 4:6] + reset * recurrent_part[..., 4:6]) |
///                         | hidden            | ((b,) d_hidden)      | (1 - update) * candidate + update * previous_hidden        |
///
///                         with the columns of d_hidden = 2. With the reset before the product `recurrent_part` has the
///                         gates only, `previous_hidden @ recurrent_weights[:, 0:4] + recurrent_bias[0:4]`; then follow
///                         `selected`, `reset * previous_hidden`, after the gates, `candidate_part`,
///                         `selected @ recurrent_weights[:, 4:6] + recurrent_bias[4:6]`, and `candidate` is
///                         `tanh(input_part[..., 4:6] + candidate_part)`
/// @return the new state, ((b,) d_hidden)
/// @throws ShapeError where x, the state and the weights disagree
/// @see Cho et al. 2014, "Learning Phrase Representations using RNN Encoder-Decoder"; seed document 003
Vector gru_cell(const Vector& x, const Vector& previous_hidden, const RecurrentCellWeights& weights,
                const GruCellOptions& options = {}, const Trace& trace = {});
/// The same for a batch.
Matrix gru_cell(const Matrix& x, const Matrix& previous_hidden, const RecurrentCellWeights& weights,
                const GruCellOptions& options = {}, const Trace& trace = {});

/// What an LSTM carries from one token to the next.
template <class T>
struct LstmStateOf {
    T hidden; ///< what it shows: ((b,) d_hidden), or, of all layers and directions, (cells, (b,) d_hidden)
    T cell;   ///< what it remembers, of the same shape
};

/// One step of an LSTM: a memory that is only scaled and added to, and three gates around it.
///
/// The forget gate says what of the memory stays, the input gate what of the candidate comes in, the output gate what of
/// the memory shows.
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
/// @see Hochreiter and Schmidhuber 1997; Gers, Schmidhuber and Cummins 2000 for the forget gate; seed document 003
LstmStateOf<Vector> lstm_cell(const Vector& x, const LstmStateOf<Vector>& previous, const RecurrentCellWeights& weights,
                              const Trace& trace = {});
/// The same for a batch.
LstmStateOf<Matrix> lstm_cell(const Matrix& x, const LstmStateOf<Matrix>& previous, const RecurrentCellWeights& weights,
                              const Trace& trace = {});

} // namespace attn
