#include "attn/layers/recurrent/recurrent.hpp"

#include "walk.hpp"

#include "attn/ops/concat.hpp"
#include "attn/shape.hpp"

#include <string>

namespace attn {
namespace {

using namespace recurrent;

template <Sequence T>
void expect_lengths(std::string_view function, const T& x, const std::vector<std::size_t>& lengths)
{
    if (lengths.empty())
        return;
    const std::string complaint = std::string(function) + ": ";
    if (std::same_as<T, Matrix> || lengths.size() != x.shape(0))
        throw ShapeError(complaint + std::to_string(lengths.size()) + " lengths for x " + to_string(shape_of(x)) +
                         ", expected one for each sequence of a batch");
    for (const std::size_t length : lengths)
        if (length == 0 || length > x.shape(1))
            throw ShapeError(complaint + "a length is " + std::to_string(length) +
                             ", expected 1 to n = " + std::to_string(x.shape(1)) + " tokens");
}

// ---------------------------------------------------------------------------------------------------------------- layers

std::size_t cells_in(const RecurrentWeights& weights)
{
    std::size_t cells = 0;
    for (const RecurrentLayerWeights& layer : weights.layers)
        cells += (layer.forward ? 1u : 0u) + (layer.backward ? 1u : 0u);
    return cells;
}

const RecurrentCellWeights& any_cell(const RecurrentLayerWeights& layer)
{
    return layer.forward ? *layer.forward : *layer.backward;
}

template <Sequence T, class Kind>
void expect_fit(const Kind&, const T& x, const RecurrentWeights& weights)
{
    const std::string function(Kind::name);
    if (weights.layers.empty())
        throw ShapeError(function + ": there are no layers, expected at least one");
    for (std::size_t i = 0; i < weights.layers.size(); ++i)
        if (!weights.layers[i].forward && !weights.layers[i].backward)
            throw ShapeError(function + ": layer " + std::to_string(i) +
                             " reads neither forward nor backward, expected weights of at least one direction");
    if (x.shape(tokens<T>) == 0)
        throw ShapeError(function + ": x " + to_string(shape_of(x)) + " has no tokens, expected at least one");
}

/// (cells, (b,) d_hidden)
template <Sequence T>
void expect_states(std::string_view function, std::string_view role, const T& states, const T& x,
                   const RecurrentWeights& weights)
{
    Shape expected{cells_in(weights)};
    if constexpr (std::same_as<T, Tensor3>)
        expected.push_back(x.shape(0));
    expected.push_back(any_cell(weights.layers.front()).recurrent.weight.shape(0));
    if (shape_of(states) != expected)
        throw ShapeError(std::string(function) + ": " + std::string(role) + " " + to_string(shape_of(states)) +
                         " does not fit, expected " + to_string(expected) + ": a state for each layer and direction" +
                         (std::same_as<T, Tensor3> ? ", of each sequence" : ""));
}

template <Sequence T>
T no_states(const T& x, const RecurrentWeights& weights)
{
    const std::size_t width = any_cell(weights.layers.front()).recurrent.weight.shape(0);
    if constexpr (std::same_as<T, Matrix>)
        return T(typename T::shape_type{cells_in(weights), width}, 0.0);
    else
        return T(typename T::shape_type{cells_in(weights), x.shape(0), width}, 0.0);
}

template <Sequence T>
std::string states_label(const std::string& name)
{
    return name + (std::same_as<T, Matrix> ? "[cells, d_hidden]" : "[cells, b, d_hidden]");
}

/// What of all cells is handed back, and where it stands.
template <Sequence T>
struct Last {
    std::vector<TokenOf<T>> states;
    std::string formula = "concat(";

    void add(const TokenOf<T>& state, const std::string& path)
    {
        states.push_back(state);
        formula += path + "[None, ...], ";
    }

    T named(const std::string& name, const Trace& trace) const
    {
        return trace(states_label<T>(name), formula + "axis=0)", as_cells(states));
    }
};

/// All layers of one run.
template <Sequence T, class Kind>
class Stack {
public:
    Stack(const Kind& kind, const LstmStateOf<T>& initial, const std::vector<std::size_t>& lengths)
        : kind_(kind), initial_(initial), lengths_(lengths)
    {
    }

    LstmOf<T> run(const T& x, const RecurrentWeights& weights, const Trace& trace)
    {
        T output = x;
        std::string from = "x";
        for (std::size_t i = 0; i < weights.layers.size(); ++i) {
            const Trace inside = trace.scope("layers", i);
            const std::string scope = "layers." + std::to_string(i) + ".";
            output = layer(inside("x[(b,) n, d_in]", from, output), weights.layers[i], scope, inside);
            from = scope + "output";
        }
        LstmStateOf<T> final{last_hidden_.named("final_hidden", trace), {}};
        if constexpr (Kind::has_cell)
            final.cell = last_cell_.named("final_cell", trace);
        return {trace("output[(b,) n, d_out]", from, output), final};
    }

private:
    T layer(const T& x, const RecurrentLayerWeights& weights, const std::string& scope, const Trace& trace)
    {
        std::vector<T> outputs;
        if (weights.forward)
            outputs.push_back(direction("forward", x, *weights.forward, scope, trace));
        if (weights.backward)
            outputs.push_back(direction("backward", x, *weights.backward, scope, trace));
        if (outputs.size() == 2)
            return trace("output[(b,) n, d_out]", "concat(forward.output, backward.output, axis=-1)",
                         concat_columns(outputs));
        return trace("output[(b,) n, d_out]", weights.forward ? "forward.output" : "backward.output", outputs.front());
    }

    T direction(std::string_view name, const T& x, const RecurrentCellWeights& weights, const std::string& scope,
                const Trace& layer)
    {
        const Trace trace = layer.scope(name);
        const std::size_t which = last_hidden_.states.size();
        StateOf<T> start{state_of(initial_.hidden, which), {}};
        if constexpr (Kind::has_cell)
            start.cell = state_of(initial_.cell, which);
        const Way<T> way = Walk<T, Kind>(kind_, x, lengths_, trace).run(weights, start, which, name == "backward");
        const std::string path = scope + std::string(name) + ".";
        last_hidden_.add(way.last.hidden, path + way.last_hidden);
        if constexpr (Kind::has_cell)
            last_cell_.add(way.last.cell, path + way.last_cell);
        return way.output;
    }

    const Kind& kind_;
    const LstmStateOf<T>& initial_;
    const std::vector<std::size_t>& lengths_;
    Last<T> last_hidden_, last_cell_;
};

template <class Kind>
StepOptions describe(const Kind& kind, const RecurrentWeights& weights)
{
    const RecurrentLayerWeights& first = weights.layers.front();
    StepOptions described{{"layers", std::to_string(weights.layers.size())},
                          {"directions", !first.backward  ? "forward"
                                         : !first.forward ? "backward"
                                                          : "both"}};
    kind.describe(described);
    return described;
}

/// @param initial  nullptr for zeros
template <Sequence T, class Kind>
LstmOf<T> read(const Kind& kind, const T& x, const LstmStateOf<T>* initial, const RecurrentWeights& weights,
               const std::vector<std::size_t>& lengths, const Trace& caller)
{
    expect_fit(kind, x, weights);
    expect_lengths(Kind::name, x, lengths);
    const T none = no_states(x, weights);
    const LstmStateOf<T> start = initial != nullptr ? *initial : LstmStateOf<T>{none, none};
    expect_states(Kind::name, "initial_hidden", start.hidden, x, weights);
    if constexpr (Kind::has_cell)
        expect_states(Kind::name, "initial_cell", start.cell, x, weights);

    const Trace trace = caller.module(Kind::name, [&] { return describe(kind, weights); });
    trace.input("x[(b,) n, d_in]", x);
    if (!lengths.empty())
        trace.input("lengths[b]", as_vector(lengths));
    trace.input(states_label<T>("initial_hidden"), start.hidden);
    if constexpr (Kind::has_cell)
        trace.input(states_label<T>("initial_cell"), start.cell);
    return Stack<T, Kind>(kind, start, lengths).run(x, weights, trace);
}

template <Sequence T>
GruOf<T> read_by_gru(const T& x, const T* initial_hidden, const RecurrentWeights& weights, const GruOptions& options,
                     const Trace& trace)
{
    const LstmStateOf<T> initial{initial_hidden != nullptr ? *initial_hidden : T{}, {}};
    const LstmOf<T> result =
        read(GruKind{options.cell}, x, initial_hidden != nullptr ? &initial : nullptr, weights, options.lengths, trace);
    return {result.output, result.final.hidden};
}

} // namespace

Gru gru(const Matrix& x, const RecurrentWeights& weights, const GruOptions& options, const Trace& trace)
{
    return read_by_gru<Matrix>(x, nullptr, weights, options, trace);
}

BatchGru gru(const Tensor3& x, const RecurrentWeights& weights, const GruOptions& options, const Trace& trace)
{
    return read_by_gru<Tensor3>(x, nullptr, weights, options, trace);
}

Gru gru(const Matrix& x, const Matrix& initial_hidden, const RecurrentWeights& weights, const GruOptions& options,
        const Trace& trace)
{
    return read_by_gru(x, &initial_hidden, weights, options, trace);
}

BatchGru gru(const Tensor3& x, const Tensor3& initial_hidden, const RecurrentWeights& weights,
             const GruOptions& options, const Trace& trace)
{
    return read_by_gru(x, &initial_hidden, weights, options, trace);
}

Lstm lstm(const Matrix& x, const RecurrentWeights& weights, const LstmOptions& options, const Trace& trace)
{
    return read<Matrix>(LstmKind{}, x, nullptr, weights, options.lengths, trace);
}

BatchLstm lstm(const Tensor3& x, const RecurrentWeights& weights, const LstmOptions& options, const Trace& trace)
{
    return read<Tensor3>(LstmKind{}, x, nullptr, weights, options.lengths, trace);
}

Lstm lstm(const Matrix& x, const LstmStateOf<Matrix>& initial, const RecurrentWeights& weights,
          const LstmOptions& options, const Trace& trace)
{
    return read(LstmKind{}, x, &initial, weights, options.lengths, trace);
}

BatchLstm lstm(const Tensor3& x, const LstmStateOf<Tensor3>& initial, const RecurrentWeights& weights,
               const LstmOptions& options, const Trace& trace)
{
    return read(LstmKind{}, x, &initial, weights, options.lengths, trace);
}

} // namespace attn
