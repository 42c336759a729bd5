#include "attn/reference/layers/recurrent/lstm.hpp"

#include "gates.hpp"
#include "sequence.hpp"

#include "attn/reference/ops/activation.hpp"

namespace attn {
namespace {

using namespace recurrent;

/// The equations of an LSTM, of inputs that the trace has names for.
template <Token T>
LstmStateOf<T> next_state(const T& x, const T& previous_hidden, const T& previous_cell, const NamedCell& weights,
                          const Trace& caller)
{
    expect_fit("lstm_cell", x, previous_hidden, weights, 4);
    for (std::size_t axis = 0; axis <= last_axis<T>; ++axis)
        expect_agreement("lstm_cell", axis == last_axis<T> ? "d_hidden" : "b",
                         {"previous_hidden", previous_hidden, axis}, {"previous_cell", previous_cell, axis});
    const Trace trace = caller.module("lstm_cell");

    // Map the token and the state to all gates at once.
    const T input_part = trace("input_part[(b,) d_gates]", weights.input.formula("x"), weights.input.apply(x));
    const T recurrent_part = trace("recurrent_part[(b,) d_gates]", weights.recurrent.formula("previous_hidden"),
                                   weights.recurrent.apply(previous_hidden));
    const Gates<T> gates{input_part, recurrent_part, previous_hidden.shape(last_axis<T>)};

    // Three gates are numbers from 0 to 1; the candidate can be negative.
    const T input_gate = trace("input_gate[(b,) d_hidden]", gates.formula("sigmoid", 0), sigmoid(gates.sum(0)));
    const T forget_gate = trace("forget_gate[(b,) d_hidden]", gates.formula("sigmoid", 1), sigmoid(gates.sum(1)));
    const T candidate = trace("candidate[(b,) d_hidden]", gates.formula("tanh", 2), attn::tanh(gates.sum(2)));
    const T output_gate = trace("output_gate[(b,) d_hidden]", gates.formula("sigmoid", 3), sigmoid(gates.sum(3)));

    // The cell is scaled and added to, never multiplied by a matrix.
    const T cell = trace("cell[(b,) d_hidden]", "forget_gate * previous_cell + input_gate * candidate",
                         T(forget_gate * previous_cell + input_gate * candidate));
    const T hidden = trace("hidden[(b,) d_hidden]", "output_gate * tanh(cell)", T(output_gate * attn::tanh(cell)));
    return {hidden, cell};
}

/// An LSTM as read() takes it.
struct LstmCell {
    static constexpr std::string_view function = "lstm";
    static constexpr std::array<std::string_view, 2> state{"hidden", "cell"};

    StepOptions description() const { return {}; }

    template <Token T>
    std::array<T, 2> next(const T& x, const std::array<T, 2>& previous, const NamedCell& cell, const Trace& trace) const
    {
        LstmStateOf<T> found = next_state(x, previous[0], previous[1], cell, trace);
        return {std::move(found.hidden), std::move(found.cell)};
    }
};

} // namespace

template <Token T>
LstmStateOf<T> lstm_cell(const T& given_x, const LstmStateOf<T>& previous, const RecurrentCellWeights& weights,
                         const Trace& caller)
{
    const Trace trace = caller.module("lstm_cell");
    const T& x = trace.input("x[(b,) d_in]", given_x);
    const T& previous_hidden = trace.input("previous_hidden[(b,) d_hidden]", previous.hidden);
    const T& previous_cell = trace.input("previous_cell[(b,) d_hidden]", previous.cell);
    return next_state(x, previous_hidden, previous_cell, name_weights(weights, trace), trace);
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
