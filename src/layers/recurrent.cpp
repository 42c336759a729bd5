#include "attn/layers/recurrent.hpp"

#include "recurrent_step.hpp"

#include "attn/ops/concat.hpp"
#include "attn/shape.hpp"

#include <string>

namespace attn {
namespace {

template <Sequence T>
constexpr std::size_t tokens = std::same_as<T, Matrix> ? 0 : 1; // the axis of tokens; features follow

/// One token of a sequence, or the tokens of a batch at one place; so are states.
template <Sequence T>
using TokenOf = std::conditional_t<std::same_as<T, Matrix>, Vector, Matrix>;

/// What a cell carries on. The cell of a GRU is empty.
template <Sequence T>
using StateOf = LstmStateOf<TokenOf<T>>;

// --------------------------------------------------------------------------------------------------------------- cells

/// A GRU, as walking along a sequence sees it.
struct GruKind {
    static constexpr std::string_view name = "gru";
    static constexpr bool has_cell = false;
    static constexpr std::size_t gates = 3;
    GruCellOptions options;

    template <Token T>
    LstmStateOf<T> step(const T& x, const LstmStateOf<T>& previous, const RecurrentCellWeights& weights,
                        const Trace& trace) const
    {
        return {gru_step(x, previous.hidden, weights, options, trace), {}};
    }

    void describe(StepOptions& described) const
    {
        described.emplace_back("reset", options.reset == ResetGate::after_product ? "after" : "before");
    }
};

/// An LSTM.
struct LstmKind {
    static constexpr std::string_view name = "lstm";
    static constexpr bool has_cell = true;
    static constexpr std::size_t gates = 4;

    template <Token T>
    LstmStateOf<T> step(const T& x, const LstmStateOf<T>& previous, const RecurrentCellWeights& weights,
                        const Trace& trace) const
    {
        return lstm_step(x, previous, weights, trace);
    }

    void describe(StepOptions&) const {}
};

// ------------------------------------------------------------------------------------------------------- taking, giving

Vector token_of(const Matrix& x, std::size_t i) { return xt::row(x, static_cast<std::ptrdiff_t>(i)); }
Matrix token_of(const Tensor3& x, std::size_t i) { return xt::view(x, xt::all(), i, xt::all()); }

Vector state_of(const Matrix& states, std::size_t cell) { return token_of(states, cell); }
Matrix state_of(const Tensor3& states, std::size_t cell) { return xt::view(states, cell, xt::all(), xt::all()); }

/// Each token's state, in the order of tokens.
Matrix in_order(const std::vector<Vector>& states)
{
    Matrix all(Matrix::shape_type{states.size(), states.front().size()});
    for (std::size_t i = 0; i < states.size(); ++i)
        xt::view(all, i, xt::all()) = states[i];
    return all;
}

Tensor3 in_order(const std::vector<Matrix>& states)
{
    Tensor3 all(Tensor3::shape_type{states.front().shape(0), states.size(), states.front().shape(1)});
    for (std::size_t i = 0; i < states.size(); ++i)
        xt::view(all, xt::all(), i, xt::all()) = states[i];
    return all;
}

/// The states of all cells, one after the other.
Matrix as_cells(const std::vector<Vector>& states) { return in_order(states); }

Tensor3 as_cells(const std::vector<Matrix>& states)
{
    Tensor3 all(Tensor3::shape_type{states.size(), states.front().shape(0), states.front().shape(1)});
    for (std::size_t i = 0; i < states.size(); ++i)
        xt::view(all, i, xt::all(), xt::all()) = states[i];
    return all;
}

// ------------------------------------------------------------------------------------------------- ends of the sequences

/// A sequence that has ended keeps its state.
Vector where_real(const std::vector<std::size_t>&, std::size_t, const Vector& current, const Vector&)
{
    return current; // a single sequence has no padding
}

Matrix where_real(const std::vector<std::size_t>& lengths, std::size_t i, const Matrix& current, const Matrix& previous)
{
    Matrix kept = previous;
    for (std::size_t b = 0; b < lengths.size(); ++b)
        if (i < lengths[b])
            xt::view(kept, b, xt::all()) = xt::view(current, b, xt::all());
    return kept;
}

/// Behind the end of its sequence, a token gives nothing.
void clear_padding(const std::vector<std::size_t>&, Matrix&) {}

void clear_padding(const std::vector<std::size_t>& lengths, Tensor3& output)
{
    for (std::size_t b = 0; b < lengths.size(); ++b)
        xt::view(output, b, xt::range(lengths[b], output.shape(1)), xt::all()) = 0.0;
}

Vector as_vector(const std::vector<std::size_t>& lengths)
{
    Vector numbers(Vector::shape_type{lengths.size()});
    std::copy(lengths.begin(), lengths.end(), numbers.begin());
    return numbers;
}

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

// ------------------------------------------------------------------------------------------------------------- one way

/// What a cell makes of a sequence.
template <Sequence T>
struct Way {
    T output;                           ///< ((b,) n, d_hidden)
    StateOf<T> last;                    ///< when all was read
    std::string last_hidden, last_cell; ///< which steps that is
};

/// "concat(step.0.hidden[..., None, :], step.1.hidden[..., None, :], axis=-2)"
std::string joining(std::size_t n)
{
    std::string parts;
    for (std::size_t i = 0; i < n; ++i)
        parts += "step." + std::to_string(i) + ".hidden[..., None, :], ";
    return "concat(" + parts + "axis=-2)";
}

std::string without_padding(const std::string& joined, std::size_t n)
{
    return "where((arange(" + std::to_string(n) + ") < lengths[:, None])[:, :, None], " + joined + ", 0)";
}

/// How states are handed on: under which names, and how far.
template <Sequence T, class Kind>
class Walk {
public:
    Walk(const Kind& kind, const T& x, const std::vector<std::size_t>& lengths, const Trace& trace)
        : kind_(kind), x_(x), lengths_(lengths), trace_(trace)
    {
    }

    /// @param which  of the initial states
    Way<T> run(const RecurrentCellWeights& weights, const StateOf<T>& start, std::size_t which, bool is_backward)
    {
        const std::string initial = "[" + std::to_string(which) + "]";
        Way<T> way{{}, start, "initial_hidden" + initial, "initial_cell" + initial};
        name_weights(weights, trace_);
        const std::size_t n = x_.shape(tokens<T>);
        std::vector<TokenOf<T>> hidden(n);
        for (std::size_t read = 0; read < n; ++read) {
            const std::size_t i = is_backward ? n - 1 - read : read;
            hidden[i] = step(i, weights, way);
        }
        T output = in_order(hidden);
        clear_padding(lengths_, output);
        way.output = trace_(
            "output[(b,) n, d_hidden]", [&] { return lengths_.empty() ? joining(n) : without_padding(joining(n), n); },
            std::move(output));
        return way;
    }

private:
    /// One token: the state that there was, the state that comes of it.
    TokenOf<T> step(std::size_t i, const RecurrentCellWeights& weights, Way<T>& way)
    {
        const Trace trace = trace_.scope("step", i);
        const TokenOf<T> x = trace(
            "x[(b,) d_in]", [&] { return "x[..., " + std::to_string(i) + ", :]"; }, token_of(x_, i));
        StateOf<T> previous;
        previous.hidden = trace("previous_hidden[(b,) d_hidden]", way.last_hidden, way.last.hidden);
        if constexpr (Kind::has_cell)
            previous.cell = trace("previous_cell[(b,) d_hidden]", way.last_cell, way.last.cell);
        const StateOf<T> current = kind_.step(x, previous, weights, trace);
        hand_on(i, previous, current, way, trace);
        return current.hidden;
    }

    void hand_on(std::size_t i, const StateOf<T>& previous, const StateOf<T>& current, Way<T>& way, const Trace& trace)
    {
        const std::string scope = "step." + std::to_string(i) + ".";
        way.last = current;
        way.last_hidden = scope + "hidden";
        way.last_cell = scope + "cell";
        if (lengths_.empty())
            return;
        way.last.hidden = kept("kept_hidden[(b,) d_hidden]", "hidden", i, current.hidden, previous.hidden, trace);
        way.last_hidden = scope + "kept_hidden";
        if constexpr (Kind::has_cell) {
            way.last.cell = kept("kept_cell[(b,) d_hidden]", "cell", i, current.cell, previous.cell, trace);
            way.last_cell = scope + "kept_cell";
        }
    }

    TokenOf<T> kept(std::string_view step, const std::string& name, std::size_t i, const TokenOf<T>& current,
                    const TokenOf<T>& previous, const Trace& trace) const
    {
        return trace(
            step,
            [&] { return "where(lengths[:, None] > " + std::to_string(i) + ", " + name + ", previous_" + name + ")"; },
            where_real(lengths_, i, current, previous));
    }

    const Kind& kind_;
    const T& x_;
    const std::vector<std::size_t>& lengths_;
    const Trace& trace_;
};

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
