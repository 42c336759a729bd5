#pragma once

#include "attn/core/trace.hpp"
#include "attn/reference/layers/recurrent/recurrent.hpp"

#include <optional>
#include <type_traits>

namespace attn {

/// Where the reset gate of a GRU acts. With the same weights the two give different states.
enum class ResetGate {
    after_product, ///< r * (h U + b): PyTorch, and Keras by default; one product with the state per token
    before_product ///< (r * h) U + b: Cho et al. 2014, document 003 of docs/sources.md, and Keras with `reset_after=False`
};

/// Options of gru_cell() and gru().
struct GruOptions {
    ResetGate reset = ResetGate::after_product;
};

/// One step of a GRU (gated recurrent unit): the hidden state after one more token.
///
/// The new state is a weighted mean of the previous state and a candidate, feature by feature: an update gate of 1 keeps
/// the previous state, 0 takes the candidate. The reset gate says how much of the previous state the candidate uses.
/// This update gate is PyTorch's and Cho et al.'s; Chung et al. 2014 write `1 - update` for `update`, which is the same
/// cell with that gate's weights negated.
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
///                         with the columns of d_hidden = 2. With the reset before the product `recurrent_part` has two
///                         gates, `previous_hidden @ recurrent_weights[:, 0:4] + recurrent_bias[0:4]`; `update` is
///                         followed by `selected`, `reset * previous_hidden`, and `candidate_part`,
///                         `selected @ recurrent_weights[:, 4:6] + recurrent_bias[4:6]`; and `candidate` is
///                         `tanh(input_part[..., 4:6] + candidate_part)`
/// @return the new hidden state, ((b,) d_hidden)
/// @throws ShapeError where x, the state and the weights disagree
/// @see Cho et al. 2014, "Learning Phrase Representations using RNN Encoder-Decoder"; document 003 of docs/sources.md
template <Token T>
T gru_cell(const T& x, const T& previous_hidden, const RecurrentCellWeights& weights, const GruOptions& options = {},
           const Trace& trace = {});

/// Results of gru().
template <Sequence T>
struct GruOf {
    T output;       ///< ((b,) n, d_out): the last layer's state after each token; both directions side by side
    T final_hidden; ///< (cells, (b,) d_hidden): each cell's last state, layer by layer, forward before backward
};
using Gru = GruOf<Matrix>;
using BatchGru = GruOf<Tensor3>;

/// A GRU over a sequence, token by token. No state can be computed before the state that precedes it.
///
/// @param x               ((b,) n, d_in), at least one token
/// @param initial_hidden  (cells, (b,) d_hidden), the states to start from; zeros by default. Cells are counted layer by
///                        layer, forward before backward
/// @param lengths         (b), of a batch only: how many tokens of each sequence are real; all of them by default. After
///                        its last real token a sequence keeps its state and has outputs of zero
/// @param weights         of one layer or more
/// @param options         where the reset gate acts
/// @param trace    in the scopes layers.0.forward.step.0, layers.0.forward.step.1, … (one per token) the steps of
///                 gru_cell() without the weights, which each direction has once, and
///
///                 | step                                   | shape                | formula                                        |
///                 |----------------------------------------|----------------------|------------------------------------------------|
///                 | x                                      | ((b,) n, d_in)       |                                                |
///                 | initial_hidden                         | (cells, (b,) d_hidden) |                                              |
///                 | layers.0.forward.input_weights         | (d_in, d_gates)      |                                                |
///                 | layers.0.forward.input_bias            | (d_gates,)           |                                                |
///                 | layers.0.forward.recurrent_weights     | (d_hidden, d_gates)  |                                                |
///                 | layers.0.forward.recurrent_bias        | (d_gates,)           |                                                |
///                 | layers.0.forward.step.0.x              | ((b,) d_in)          | x[..., 0, :]                                   |
///                 | layers.0.forward.step.0.previous_hidden | ((b,) d_hidden)     | initial_hidden[0]                              |
///                 | layers.0.forward.step.1.x              | ((b,) d_in)          | x[..., 1, :]                                   |
///                 | layers.0.forward.output                | ((b,) n, d_hidden)   | concat(step.0.hidden[..., None, :], step.1.hidden[..., None, :], axis=-2) |
///                 | final_hidden                           | (cells, (b,) d_hidden) | concat(layers.0.forward.step.1.hidden[None, ...], axis=0) |
///
///                 for two tokens. Other names: `layers.0.x` is x, `step.1.previous_hidden` is `step.0.hidden`,
///                 `layers.0.output` and `output` are `layers.0.forward.output`. Backward, in layers.0.backward, step 1
///                 comes first; with both directions `layers.0.output` is the step
///                 `concat(forward.output, backward.output, axis=-1)`. With `lengths`, an input after `x`, each `hidden`
///                 is followed by `kept_hidden`, `where(lengths[:, None] > 0, hidden, previous_hidden)`, from which the
///                 next token and final_hidden go on, and a direction's output is
///                 `where((arange(2) < lengths[:, None])[:, :, None], concat(…), 0)`
/// @throws ShapeError where x, the states, the weights and the lengths disagree
/// @see Cho et al. 2014; documents 001 and 003 of docs/sources.md
template <Sequence T>
GruOf<T> gru(const T& x, const std::optional<std::type_identity_t<T>>& initial_hidden,
             const std::optional<Integers>& lengths, const RecurrentWeights& weights, const GruOptions& options = {},
             const Trace& trace = {});

/// The same from zeros, without padding.
template <Sequence T>
GruOf<T> gru(const T& x, const RecurrentWeights& weights, const GruOptions& options = {}, const Trace& trace = {})
{
    return gru(x, {}, {}, weights, options, trace);
}
ATTN_REFUSE_OTHER_TENSORS(gru);

} // namespace attn
