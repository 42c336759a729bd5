#include "attn/reference/layers/recurrent/gru.hpp"

#include "gates.hpp"
#include "sequence.hpp"

namespace attn {
namespace {

using namespace recurrent;

enum Gate : std::size_t { reset_gate, update_gate, candidate_gate };

StepOptions describe(const GruOptions& options)
{
    return {{"reset", options.reset == ResetGate::after_product ? "after" : "before"}};
}

/// The equations of a GRU, of inputs that the trace has names for.
template <Token T>
Term<T> next_hidden(const Term<T>& x, const Term<T>& previous_hidden, const NamedCell& cell, const GruOptions& options,
                    const Trace& caller)
{
    expect_fit("gru_cell", x, previous_hidden, cell, 3);
    const Trace trace = caller.module("gru_cell", [&] { return describe(options); });
    const std::size_t d_hidden = previous_hidden.shape(last_axis<T>);
    const bool is_after = options.reset == ResetGate::after_product;

    // Map the token and the state to all gates at once; the candidate's product can depend on the reset gate.
    const NamedMap recurrent = is_after ? cell.recurrent : cell.recurrent.some({0, 2 * d_hidden});
    const Term input_part = trace("input_part[(b,) d_gates]", cell.input.apply(x));
    const Term recurrent_part = trace("recurrent_part[(b,) d_gates]", recurrent.apply(previous_hidden));
    const Gates<T> gates{input_part, recurrent_part, d_hidden};

    // How much of the past the candidate uses, and how much of it stays: numbers from 0 to 1.
    const Term reset = trace("reset[(b,) d_hidden]", sigmoid(gates.sum(reset_gate)));
    const Term update = trace("update[(b,) d_hidden]", sigmoid(gates.sum(update_gate)));

    // The reset gate acts on the product of the state, or on the state before it.
    Term<T> past;
    if (is_after) {
        past = reset * gates.recurrent(candidate_gate);
    } else {
        const Term selected = trace("selected[(b,) d_hidden]", reset * previous_hidden);
        past = trace("candidate_part[(b,) d_hidden]",
                     cell.recurrent.some(gates.columns_of(candidate_gate)).apply(selected));
    }

    // Mix the candidate with the past.
    const Term candidate = trace("candidate[(b,) d_hidden]", tanh(gates.input(candidate_gate) + past));
    return trace("hidden[(b,) d_hidden]", (1.0 - update) * candidate + update * previous_hidden);
}

/// A GRU as read() takes it.
struct GruCell {
    static constexpr std::string_view function = "gru";
    static constexpr std::array<std::string_view, 1> state{"hidden"};
    GruOptions options;

    StepOptions description() const { return describe(options); }

    template <Token T>
    std::array<Term<T>, 1> next(const Term<T>& x, const std::array<Term<T>, 1>& previous, const NamedCell& cell,
                                const Trace& trace) const
    {
        return {next_hidden(x, previous[0], cell, options, trace)};
    }
};

} // namespace

template <Token T>
T gru_cell(const T& given_x, const T& given_hidden, const RecurrentCellWeights& weights, const GruOptions& options,
           const Trace& caller)
{
    const Trace trace = caller.module("gru_cell", [&] { return describe(options); });
    const Term x = trace.input("x[(b,) d_in]", Term(given_x));
    const Term previous_hidden = trace.input("previous_hidden[(b,) d_hidden]", Term(given_hidden));
    return T(next_hidden(x, previous_hidden, name_weights(weights, trace), options, trace));
}

template <Sequence T>
GruOf<T> gru(const T& x, const std::optional<std::type_identity_t<T>>& initial_hidden,
             const std::optional<Integers>& lengths, const RecurrentWeights& weights, const GruOptions& options,
             const Trace& trace)
{
    std::optional<std::array<T, 1>> initial;
    if (initial_hidden)
        initial = {*initial_hidden};
    Reading<T, 1> reading = read(GruCell{options}, x, initial, lengths, weights, trace);
    return {std::move(reading.output), std::move(reading.final[0])};
}

template decltype(gru_cell<Vector>) gru_cell<Vector>;
template decltype(gru_cell<Matrix>) gru_cell<Matrix>;
template Gru gru(const Matrix&, const std::optional<Matrix>&, const std::optional<Integers>&, const RecurrentWeights&,
                 const GruOptions&, const Trace&);
template BatchGru gru(const Tensor3&, const std::optional<Tensor3>&, const std::optional<Integers>&,
                      const RecurrentWeights&, const GruOptions&, const Trace&);

} // namespace attn
