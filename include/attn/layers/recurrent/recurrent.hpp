#pragma once

#include "attn/layers/recurrent/cell.hpp"

#include <cstddef>
#include <optional>
#include <vector>

namespace attn {

/// The learned parameters of one recurrent layer: it reads forward, backward, or both ways with a cell for each.
struct RecurrentLayerWeights {
    std::optional<RecurrentCellWeights> forward = {};
    std::optional<RecurrentCellWeights> backward = {};
};

/// The learned parameters of layers on top of each other: each reads what the one below showed.
struct RecurrentWeights {
    std::vector<RecurrentLayerWeights> layers;
};

/// What gru() may be told.
struct GruOptions {
    GruCellOptions cell = {};
    std::vector<std::size_t> lengths = {}; ///< how many tokens of each sequence of a batch are real; all unless given
};

/// What lstm() may be told.
struct LstmOptions {
    std::vector<std::size_t> lengths = {}; ///< how many tokens of each sequence of a batch are real; all unless given
};

/// What a GRU gives. Cells are counted layer by layer, forward before backward, as PyTorch does.
template <Sequence T>
struct GruOf {
    T output;       ///< ((b,) n, d_out): every token's state of the last layer, both directions side by side
    T final_hidden; ///< (cells, (b,) d_hidden): each cell's state when it had read all
};
using Gru = GruOf<Matrix>;
using BatchGru = GruOf<Tensor3>;

/// What an LSTM gives.
template <Sequence T>
struct LstmOf {
    T output;             ///< as a GRU's
    LstmStateOf<T> final; ///< (cells, (b,) d_hidden) each
};
using Lstm = LstmOf<Matrix>;
using BatchLstm = LstmOf<Tensor3>;

/// A GRU over a sequence: token by token, each state made of the token and the state before.
///
/// No state can be computed before the one that it follows on: that is what attention did away with.
///
/// @param x        ((b,) n, d_in), at least one token
/// @param weights  of one layer or more
/// @param options  where the reset gate acts, lengths
/// @param trace    in the scopes layers.0.forward.step.0, layers.0.forward.step.1, … the steps of gru_cell() but for its
///                 weights, which a direction has once, and
///
///                 | step                                   | shape                | formula                                        |
///                 |----------------------------------------|----------------------|------------------------------------------------|
///                 | x                                      | ((b,) n, d_in)       |                                                |
///                 | initial_hidden                         | (cells, (b,) d_hidden) |                                              |
///                 | layers.0.x                             | ((b,) n, d_in)       | x                                              |
///                 | layers.0.forward.input_weights         | (d_in, d_gates)      |                                                |
///                 | layers.0.forward.input_bias            | (d_gates,)           |                                                |
///                 | layers.0.forward.recurrent_weights     | (d_hidden, d_gates)  |                                                |
///                 | layers.0.forward.recurrent_bias        | (d_gates,)           |                                                |
///                 | layers.0.forward.step.0.x              | ((b,) d_in)          | x[..., 0, :]                                   |
///                 | layers.0.forward.step.0.previous_hidden | ((b,) d_hidden)     | initial_hidden[0]                              |
///                 | layers.0.forward.step.1.x              | ((b,) d_in)          | x[..., 1, :]                                   |
///                 | layers.0.forward.step.1.previous_hidden | ((b,) d_hidden)     | step.0.hidden                                  |
///                 | layers.0.forward.output                | ((b,) n, d_hidden)   | concat(step.0.hidden[..., None, :], step.1.hidden[..., None, :], axis=-2) |
///                 | layers.0.output                        | ((b,) n, d_out)      | forward.output                                 |
///                 | final_hidden                           | (cells, (b,) d_hidden) | concat(layers.0.forward.step.1.hidden[None, ...], axis=0) |
///                 | output                                 | ((b,) n, d_out)      | layers.0.output                                |
///
///                 for two tokens; `initial_hidden` is zeros unless given. Backward, in layers.0.backward, step 1 comes
///                 first and `step.0.previous_hidden` is `step.1.hidden`; with both directions `layers.0.output` is
///                 `concat(forward.output, backward.output, axis=-1)`. With `lengths`, an input after `x`, each step has
///                 `kept_hidden` behind it, `where(lengths[:, None] > 0, hidden, previous_hidden)`, which the next one
///                 and final_hidden go on from, and a direction's output is zero behind a sequence's end
/// @throws ShapeError where x, the states, the weights and the lengths disagree
/// @see Cho et al. 2014; seed documents 001 and 003
Gru gru(const Matrix& x, const RecurrentWeights& weights, const GruOptions& options = {}, const Trace& trace = {});
/// The same for a batch.
BatchGru gru(const Tensor3& x, const RecurrentWeights& weights, const GruOptions& options = {},
             const Trace& trace = {});
/// A GRU that goes on from a state, (cells, d_hidden).
Gru gru(const Matrix& x, const Matrix& initial_hidden, const RecurrentWeights& weights, const GruOptions& options = {},
        const Trace& trace = {});
/// The same for a batch, (cells, b, d_hidden).
BatchGru gru(const Tensor3& x, const Tensor3& initial_hidden, const RecurrentWeights& weights,
             const GruOptions& options = {}, const Trace& trace = {});

/// An LSTM over a sequence: token by token, with a memory beside what it shows.
///
/// @param x        ((b,) n, d_in), at least one token
/// @param weights  of one layer or more
/// @param options  lengths
/// @param trace    as gru(), with the steps of lstm_cell(); `initial_cell` after `initial_hidden`, `previous_cell` after
///                 each `previous_hidden`, `kept_cell` after each `kept_hidden`, `final_cell` after `final_hidden`
/// @throws ShapeError where x, the states, the weights and the lengths disagree
/// @see Hochreiter and Schmidhuber 1997; seed document 003
Lstm lstm(const Matrix& x, const RecurrentWeights& weights, const LstmOptions& options = {}, const Trace& trace = {});
/// The same for a batch.
BatchLstm lstm(const Tensor3& x, const RecurrentWeights& weights, const LstmOptions& options = {},
               const Trace& trace = {});
/// An LSTM that goes on from a state, (cells, d_hidden) each.
Lstm lstm(const Matrix& x, const LstmStateOf<Matrix>& initial, const RecurrentWeights& weights,
          const LstmOptions& options = {}, const Trace& trace = {});
/// The same for a batch, (cells, b, d_hidden) each.
BatchLstm lstm(const Tensor3& x, const LstmStateOf<Tensor3>& initial, const RecurrentWeights& weights,
               const LstmOptions& options = {}, const Trace& trace = {});

} // namespace attn
