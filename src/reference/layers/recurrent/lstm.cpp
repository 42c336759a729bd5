#include "attn/reference/layers/recurrent/lstm.hpp"

#include "gates.hpp"
#include "sequence.hpp"

namespace attn {
namespace {

using namespace recurrent;

/// The equations of an LSTM, of inputs that the trace has names for.
/// @return hidden and cell
template <Token T>
std::array<Term<T>, 2> next_state(const Term<T>& x, const Term<T>& previous_hidden, const Term<T>& previous_cell,
                                  const NamedCell& weights, const Trace& caller)
{
    expect_fit("lstm_cell", x, previous_hidden, weights, 4);
    for (std::size_t axis = 0; axis <= last_axis<T>; ++axis)
        expect_agreement("lstm_cell", axis == last_axis<T> ? "d_hidden" : "b",
                         {"previous_hidden", previous_hidden, axis}, {"previous_cell", previous_cell, axis});
    const Trace trace = caller.module("lstm_cell");

    // Map the token and the state to all gates at once.
    const Term input_part = trace("input_part[(b,) d_gates]", weights.input.apply(x));
    const Term recurrent_part = trace("recurrent_part[(b,) d_gates]", weights.recurrent.apply(previous_hidden));
    const Gates<T> gates{input_part, recurrent_part, previous_hidden.shape(last_axis<T>)};

    // Three gates are numbers from 0 to 1; the candidate can be negative.
    const Term input_gate = trace("input_gate[(b,) d_hidden]", sigmoid(gates.sum(0)));
    const Term forget_gate = trace("forget_gate[(b,) d_hidden]", sigmoid(gates.sum(1)));
    const Term candidate = trace("candidate[(b,) d_hidden]", tanh(gates.sum(2)));
    const Term output_gate = trace("output_gate[(b,) d_hidden]", sigmoid(gates.sum(3)));

    // The cell is scaled and added to, never multiplied by a matrix.
    const Term cell = trace("cell[(b,) d_hidden]", forget_gate * previous_cell + input_gate * candidate);
    return {trace("hidden[(b,) d_hidden]", output_gate * tanh(cell)), cell};
}

/// An LSTM as read() takes it.
struct LstmCell {
    static constexpr std::string_view function = "lstm";
    static constexpr std::array<std::string_view, 2> state{"hidden", "cell"};

    StepOptions description() const { return {}; }

    template <Token T>
    std::array<Term<T>, 2> next(const Term<T>& x, const std::array<Term<T>, 2>& previous, const NamedCell& cell,
                                const Trace& trace) const
    {
        return next_state(x, previous[0], previous[1], cell, trace);
    }
};

} // namespace

template <Token T>
LstmStateOf<T> lstm_cell(const T& given_x, const LstmStateOf<T>& previous, const RecurrentCellWeights& weights,
                         const Trace& caller)
{
    const Trace trace = caller.module("lstm_cell");
    const Term x = trace.input("x[(b,) d_in]", Term(given_x));
    const Term previous_hidden = trace.input("previous_hidden[(b,) d_hidden]", Term(previous.hidden));
    const Term previous_cell = trace.input("previous_cell[(b,) d_hidden]", Term(previous.cell));
    auto [hidden, cell] = next_state(x, previous_hidden, previous_cell, name_weights(weights, trace), trace);
    return {T(std::move(hidden)), T(std::move(cell))};
}

template <Sequence T>
LstmOf<T> lstm(const T& x, const std::optional<LstmStateOf<std::type_identity_t<T>>>& given,
               const std::optional<Integers>& lengths, const RecurrentWeights& weights, const Trace& trace)
{
    std::optional<std::array<T, 2>> initial;
    if (given)
        initial = {given->hidden, given->cell};
    Reading<T, 2> reading = read(LstmCell{}, x, initial, lengths, weights, trace);
    return {std::move(reading.output), {std::move(reading.final[0]), std::move(reading.final[1])}};
}

template decltype(lstm_cell<Vector>) lstm_cell<Vector>;
template decltype(lstm_cell<Matrix>) lstm_cell<Matrix>;
template Lstm lstm(const Matrix&, const std::optional<LstmStateOf<Matrix>>&, const std::optional<Integers>&,
                   const RecurrentWeights&, const Trace&);
template BatchLstm lstm(const Tensor3&, const std::optional<LstmStateOf<Tensor3>>&, const std::optional<Integers>&,
                        const RecurrentWeights&, const Trace&);

} // namespace attn
