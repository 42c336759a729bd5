#include "attn/layers/recurrent/cell.hpp"

#include "parts.hpp"
#include "step.hpp"

#include "attn/ops/activation.hpp"

namespace attn::recurrent {
namespace {

// ---------------------------------------------------------------------------------------------------------------- GRU

enum GruGate : std::size_t { reset_gate, update_gate, gru_candidate };

template <Token T>
T gate_of_gru(std::string_view step, const Parts<T>& parts, GruGate gate, const Trace& trace)
{
    const T sum = parts.sum_of(gate);
    return trace(
        step, [&] { return parts.formula("sigmoid", gate); }, sigmoid(sum));
}

template <Token T>
T hidden_of_gru(const T& update, const T& candidate, const T& previous_hidden, const Trace& trace)
{
    return trace("hidden[(b,) d_hidden]", "(1 - update) * candidate + update * previous_hidden",
                 T((1.0 - update) * candidate + update * previous_hidden));
}

/// One product with the state gives all three gates.
template <Token T>
T reset_after_product(const T& x, const T& previous_hidden, const RecurrentCellWeights& weights, const Trace& trace)
{
    const T of_input = input_part(x, weights, trace);
    const Parts<T> parts{of_input, recurrent_part(previous_hidden, weights, trace), previous_hidden.shape(features<T>)};
    const T reset = gate_of_gru("reset[(b,) d_hidden]", parts, reset_gate, trace);
    const T update = gate_of_gru("update[(b,) d_hidden]", parts, update_gate, trace);

    const T open = parts.input_of(gru_candidate) + reset * parts.recurrent_of(gru_candidate);
    const T candidate = trace(
        "candidate[(b,) d_hidden]", [&] { return parts.formula("tanh", gru_candidate, "reset * "); }, attn::tanh(open));
    return hidden_of_gru(update, candidate, previous_hidden, trace);
}

/// The candidate's product has to wait for the reset gate's.
template <Token T>
T reset_before_product(const T& x, const T& previous_hidden, const RecurrentCellWeights& weights, const Trace& trace)
{
    const std::size_t width = previous_hidden.shape(features<T>), gates = 2 * width, end = 3 * width;
    const auto formula = [&](const std::string& of, const std::string& columns) {
        return of + " @ recurrent_weights[:, " + columns + "]" +
               (weights.recurrent.bias ? " + recurrent_bias[" + columns + "]" : "");
    };
    const T of_input = input_part(x, weights, trace);
    const Parts<T> parts{of_input,
                         trace(
                             "recurrent_part[(b,) d_gates]",
                             [&] { return formula("previous_hidden", range(0, gates)); },
                             map(previous_hidden, between(weights.recurrent, 0, gates))),
                         width};
    const T reset = gate_of_gru("reset[(b,) d_hidden]", parts, reset_gate, trace);
    const T update = gate_of_gru("update[(b,) d_hidden]", parts, update_gate, trace);

    const T selected = trace("selected[(b,) d_hidden]", "reset * previous_hidden", T(reset * previous_hidden));
    const T candidate_part = trace(
        "candidate_part[(b,) d_hidden]", [&] { return formula("selected", range(gates, end)); },
        map(selected, between(weights.recurrent, gates, end)));
    const T open = parts.input_of(gru_candidate) + candidate_part;
    const T candidate = trace(
        "candidate[(b,) d_hidden]", [&] { return "tanh(input_part[..., " + range(gates, end) + "] + candidate_part)"; },
        attn::tanh(open));
    return hidden_of_gru(update, candidate, previous_hidden, trace);
}

StepOptions describe(const GruCellOptions& options)
{
    return {{"reset", options.reset == ResetGate::after_product ? "after" : "before"}};
}

template <Token T>
void name_inputs(const T& x, const T& previous_hidden, const Trace& trace)
{
    trace.input("x[(b,) d_in]", x);
    trace.input("previous_hidden[(b,) d_hidden]", previous_hidden);
}

template <Token T>
T cell_of_gru(const T& x, const T& previous_hidden, const RecurrentCellWeights& weights, const GruCellOptions& options,
              const Trace& caller)
{
    const Trace trace = caller.module("gru_cell", [&] { return describe(options); });
    name_inputs(x, previous_hidden, trace);
    name_weights(weights, trace);
    return gru_step(x, previous_hidden, weights, options, caller);
}

} // namespace

void name_weights(const RecurrentCellWeights& weights, const Trace& trace)
{
    trace.input("input_weights[d_in, d_gates]", weights.input.weight);
    if (weights.input.bias)
        trace.input("input_bias[d_gates]", *weights.input.bias);
    trace.input("recurrent_weights[d_hidden, d_gates]", weights.recurrent.weight);
    if (weights.recurrent.bias)
        trace.input("recurrent_bias[d_gates]", *weights.recurrent.bias);
}

template <Token T>
T gru_step(const T& x, const T& previous_hidden, const RecurrentCellWeights& weights, const GruCellOptions& options,
           const Trace& caller)
{
    expect_fit("gru_cell", x, previous_hidden, weights, 3);
    const bool is_after = options.reset == ResetGate::after_product;
    const Trace trace = caller.module("gru_cell", [&] { return describe(options); });
    return is_after ? reset_after_product(x, previous_hidden, weights, trace)
                    : reset_before_product(x, previous_hidden, weights, trace);
}

template Vector gru_step(const Vector&, const Vector&, const RecurrentCellWeights&, const GruCellOptions&,
                         const Trace&);
template Matrix gru_step(const Matrix&, const Matrix&, const RecurrentCellWeights&, const GruCellOptions&,
                         const Trace&);

// --------------------------------------------------------------------------------------------------------------- LSTM

namespace {

enum LstmGate : std::size_t { input_gate, forget_gate, lstm_candidate, output_gate };

template <Token T>
T gate_of_lstm(std::string_view step, const Parts<T>& parts, LstmGate gate, const Trace& trace)
{
    const bool is_candidate = gate == lstm_candidate; // it may be negative; a gate is a share
    const T sum = parts.sum_of(gate);
    return trace(
        step, [&] { return parts.formula(is_candidate ? "tanh" : "sigmoid", gate); },
        is_candidate ? attn::tanh(sum) : sigmoid(sum));
}

template <Token T>
LstmStateOf<T> cell_of_lstm(const T& x, const LstmStateOf<T>& previous, const RecurrentCellWeights& weights,
                            const Trace& caller)
{
    const Trace trace = caller.module("lstm_cell");
    name_inputs(x, previous.hidden, trace);
    trace.input("previous_cell[(b,) d_hidden]", previous.cell);
    name_weights(weights, trace);
    return lstm_step(x, previous, weights, caller);
}

} // namespace

template <Token T>
LstmStateOf<T> lstm_step(const T& x, const LstmStateOf<T>& previous, const RecurrentCellWeights& weights,
                         const Trace& caller)
{
    expect_fit("lstm_cell", x, previous.hidden, weights, 4);
    for (std::size_t axis = 0; axis <= features<T>; ++axis)
        expect_agreement("lstm_cell", axis == features<T> ? "d_hidden" : "b",
                         {"previous_hidden", previous.hidden, axis}, {"previous_cell", previous.cell, axis});
    const Trace trace = caller.module("lstm_cell");
    const T of_input = input_part(x, weights, trace);
    const Parts<T> parts{of_input, recurrent_part(previous.hidden, weights, trace), previous.hidden.shape(features<T>)};
    const T in = gate_of_lstm("input_gate[(b,) d_hidden]", parts, input_gate, trace);
    const T keep = gate_of_lstm("forget_gate[(b,) d_hidden]", parts, forget_gate, trace);
    const T candidate = gate_of_lstm("candidate[(b,) d_hidden]", parts, lstm_candidate, trace);
    const T out = gate_of_lstm("output_gate[(b,) d_hidden]", parts, output_gate, trace);

    // The memory is scaled and added to, never multiplied by a matrix.
    const T cell = trace("cell[(b,) d_hidden]", "forget_gate * previous_cell + input_gate * candidate",
                         T(keep * previous.cell + in * candidate));
    return {trace("hidden[(b,) d_hidden]", "output_gate * tanh(cell)", T(out * attn::tanh(cell))), cell};
}

template LstmStateOf<Vector> lstm_step(const Vector&, const LstmStateOf<Vector>&, const RecurrentCellWeights&,
                                       const Trace&);
template LstmStateOf<Matrix> lstm_step(const Matrix&, const LstmStateOf<Matrix>&, const RecurrentCellWeights&,
                                       const Trace&);

} // namespace attn::recurrent

namespace attn {

Vector gru_cell(const Vector& x, const Vector& previous_hidden, const RecurrentCellWeights& weights,
                const GruCellOptions& options, const Trace& trace)
{
    return recurrent::cell_of_gru(x, previous_hidden, weights, options, trace);
}

Matrix gru_cell(const Matrix& x, const Matrix& previous_hidden, const RecurrentCellWeights& weights,
                const GruCellOptions& options, const Trace& trace)
{
    return recurrent::cell_of_gru(x, previous_hidden, weights, options, trace);
}

LstmStateOf<Vector> lstm_cell(const Vector& x, const LstmStateOf<Vector>& previous, const RecurrentCellWeights& weights,
                              const Trace& trace)
{
    return recurrent::cell_of_lstm(x, previous, weights, trace);
}

LstmStateOf<Matrix> lstm_cell(const Matrix& x, const LstmStateOf<Matrix>& previous, const RecurrentCellWeights& weights,
                              const Trace& trace)
{
    return recurrent::cell_of_lstm(x, previous, weights, trace);
}

} // namespace attn
