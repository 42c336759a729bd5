#pragma once

#include "gates.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

/// Reading sequences with a recurrent cell: layer upon layer, forward, backward or both ways.
///
/// A Cell says how it is called, what its state consists of ("hidden" of a GRU, "hidden" and "cell" of an LSTM), and how
/// the state changes with a token.
namespace attn::recurrent {

/// What reading gives.
template <Sequence T, std::size_t States>
struct Reading {
    T output;                    ///< ((b,) n, d_out)
    std::array<T, States> final; ///< per part of the state, of all cells: (cells, (b,) d_hidden)
};

// -------------------------------------------------------------------------------------------------------------- checks

inline std::vector<const RecurrentCellWeights*> cells_of(const RecurrentWeights& weights)
{
    std::vector<const RecurrentCellWeights*> cells;
    for (const RecurrentLayerWeights& layer : weights.layers)
        for (const std::optional<RecurrentCellWeights>* cell : {&layer.forward, &layer.backward})
            if (*cell)
                cells.push_back(&**cell);
    return cells;
}

template <Sequence T>
void expect_fit(const std::string& function, const T& x, const RecurrentWeights& weights)
{
    if (weights.layers.empty())
        throw ShapeError(function, ": there are no layers, expected at least one");
    for (std::size_t i = 0; i < weights.layers.size(); ++i)
        if (!weights.layers[i].forward && !weights.layers[i].backward)
            throw ShapeError(function, ": layer ", i,
                             " reads neither forward nor backward, expected weights of at least one direction");
    if (x.shape(token_axis<T>) == 0)
        throw ShapeError(function, ": x ", shape_of(x), " has no tokens, expected at least one");
}

template <Sequence T>
void expect_lengths(const std::string& function, const T& x, const Integers& lengths)
{
    if (std::same_as<T, Matrix> || lengths.size() != x.shape(0))
        throw ShapeError(function, ": ", lengths.size(), " lengths for x ", shape_of(x),
                         ", expected one for each sequence of a batch");
    for (const std::int64_t length : lengths)
        if (length < 1 || std::cmp_greater(length, x.shape(1)))
            throw ShapeError(function, ": a length is ", length, ", expected 1 to n = ", x.shape(1), " tokens");
}

/// (cells, (b,) d_hidden)
template <Sequence T>
Shape shape_of_states(const T& x, const RecurrentWeights& weights)
{
    const std::vector<const RecurrentCellWeights*> cells = cells_of(weights);
    Shape shape{cells.size(), cells.front()->recurrent.weight.shape(0)};
    if constexpr (std::same_as<T, Tensor3>)
        shape.insert(shape.begin() + 1, x.shape(0));
    return shape;
}

template <Sequence T>
void expect_states(const std::string& function, const std::string& name, const T& states, const Shape& expected)
{
    if (shape_of(states) != expected)
        throw ShapeError(function, ": ", name, " ", shape_of(states), " does not fit, expected ", expected,
                         ": a state for each layer and direction",
                         (std::same_as<T, Tensor3> ? ", of each sequence" : ""));
}

// ------------------------------------------------------------------------------------------------------------- reading

inline Vector token_of(const Matrix& x, std::size_t i) { return xt::view(x, i, xt::all()); }
inline Matrix token_of(const Tensor3& x, std::size_t i) { return xt::view(x, xt::all(), i, xt::all()); }
inline void put_token(Matrix& x, std::size_t i, const Vector& token) { xt::view(x, i, xt::all()) = token; }
inline void put_token(Tensor3& x, std::size_t i, const Matrix& token) { xt::view(x, xt::all(), i, xt::all()) = token; }

template <Sequence T>
std::string states_label(const std::string& name)
{
    return name + (std::same_as<T, Matrix> ? "[cells, d_hidden]" : "[cells, b, d_hidden]");
}

template <Sequence T, class Cell>
class Reader {
public:
    static constexpr std::size_t parts = Cell::state.size();
    using Token = TokenOf<T>;
    using State = std::array<Term<Token>, parts>;

    /// @param initial  of all cells, named
    /// @param lengths  named; nothing where there is no padding
    Reader(const Cell& cell, const std::array<Term<T>, parts>& initial, const std::optional<Integers>& lengths)
        : cell_(cell), initial_(initial), lengths_(lengths)
    {
        for (std::size_t part = 0; part < parts; ++part)
            final_[part] = *initial[part];
    }

    /// Layer upon layer.
    Reading<T, parts> run(const Term<T>& x, const RecurrentWeights& weights, const Trace& trace)
    {
        Term output = x;
        for (std::size_t i = 0; i < weights.layers.size(); ++i) {
            const Trace inside = trace.scope("layers", i);
            output = layer(inside.input("x[(b,) n, d_in]", output), weights.layers[i], inside);
        }
        std::array<T, parts> last;
        for (std::size_t part = 0; part < parts; ++part)
            last[part] = T(trace(states_label<T>("final_" + std::string(Cell::state[part])),
                                 Term(std::move(final_[part]), call_of("concat", ends_[part], "axis=0"))));
        return {T(trace.alias("output", output)), std::move(last)};
    }

private:
    Term<T> layer(const Term<T>& x, const RecurrentLayerWeights& weights, const Trace& trace)
    {
        std::vector<Term<T>> outputs;
        if (weights.forward)
            outputs.push_back(direction("forward", x, *weights.forward, trace));
        if (weights.backward)
            outputs.push_back(direction("backward", x, *weights.backward, trace));
        return outputs.size() == 2 ? trace("output[(b,) n, d_out]", concat(outputs, -1))
                                   : trace.alias("output", outputs.front());
    }

    /// One cell, from one end of the sequence to the other.
    Term<T> direction(std::string_view name, const Term<T>& x, const RecurrentCellWeights& weights, const Trace& layer)
    {
        const Trace trace = layer.scope(name);
        const NamedCell named = name_weights(weights, trace);
        const std::size_t n = x.shape(token_axis<T>);
        auto shape = x.shape();
        shape.back() = initial_[0].shape().back();
        T output(shape, 0.0);
        std::vector<Wording> hidden(n);
        State state;
        for (std::size_t part = 0; part < parts; ++part)
            state[part] = {Token(xt::view(*initial_[part], cells_read_)),
                           with_suffix(initial_[part].wording(), "[" + std::to_string(cells_read_) + "]")};
        for (std::size_t read = 0; read < n; ++read) {
            const std::size_t i = name == "backward" ? n - 1 - read : read;
            const Trace step = trace.scope("step", i);
            const Term token =
                step("x[(b,) d_in]",
                     Term(Token(token_of(*x, i)), with_suffix(x.wording(), "[..., " + std::to_string(i) + ", :]")));
            for (std::size_t part = 0; part < parts; ++part)
                state[part] = step.input("previous_" + std::string(Cell::state[part]) + "[(b,) d_hidden]", state[part]);
            const State next = cell_.next(token, state, named, step);
            put_token(output, i, *next[0]);
            hidden[i] = with_suffix(next[0].wording(), "[..., None, :]");
            state = lengths_ ? kept(i, next, state, step) : next;
        }
        end(state);
        clear_padding(output);
        const Wording joined = call_of("concat", hidden, "axis=-2");
        return trace(
            "output[(b,) n, d_hidden]",
            [&] {
                const std::string all = trace.say(joined);
                return !lengths_ ? all
                                 : "where((arange(" + std::to_string(n) + ") < lengths[:, None])[:, :, None], " + all +
                                       ", 0)";
            },
            Term(std::move(output)));
    }

    /// A sequence that has ended keeps its state.
    State kept(std::size_t i, const State& next, const State& previous, const Trace& step) const
    {
        State result;
        for (std::size_t part = 0; part < parts; ++part) {
            const std::string name(Cell::state[part]);
            Token state = *previous[part];
            const std::size_t features = state.size() / lengths_->size();
            for (std::size_t b = 0; b < lengths_->size(); ++b)
                if (std::cmp_less(i, (*lengths_)(b)))
                    std::copy_n(next[part]->data() + b * features, features, state.data() + b * features);
            result[part] = step(
                "kept_" + name + "[(b,) d_hidden]",
                [&] {
                    return "where(lengths[:, None] > " + std::to_string(i) + ", " + name + ", previous_" + name + ")";
                },
                Term(std::move(state)));
        }
        return result;
    }

    /// Keeps the last state of a cell.
    void end(const State& state)
    {
        for (std::size_t part = 0; part < parts; ++part) {
            std::ranges::copy(state[part]->storage(), final_[part].data() + cells_read_ * state[part].size());
            ends_[part].push_back(with_suffix(state[part].wording(), "[None, ...]"));
        }
        ++cells_read_;
    }

    /// After the end of its sequence, a token has outputs of zero.
    void clear_padding(T& output) const
    {
        const std::size_t n = output.shape(token_axis<T>), features = output.shape(feature_axis<T>);
        for (std::size_t b = 0; lengths_ && b < lengths_->size(); ++b)
            std::fill(output.data() + (b * n + static_cast<std::size_t>((*lengths_)(b))) * features,
                      output.data() + (b + 1) * n * features, 0.0);
    }

    const Cell& cell_;
    const std::array<Term<T>, parts>& initial_;
    const std::optional<Integers>& lengths_;
    std::size_t cells_read_ = 0;
    std::array<T, parts> final_;                   ///< as far as the cells have read
    std::array<std::vector<Wording>, parts> ends_; ///< what they consist of
};

template <class Cell>
StepOptions describe(const Cell& cell, const RecurrentWeights& weights)
{
    const RecurrentLayerWeights& first = weights.layers.front();
    StepOptions described{{"layers", std::to_string(weights.layers.size())},
                          {"directions", !first.backward  ? "forward"
                                         : !first.forward ? "backward"
                                                          : "both"}};
    for (auto& option : cell.description())
        described.push_back(std::move(option));
    return described;
}

/// Reads a sequence, or each of a batch, with all layers.
/// @param given_states   nothing for zeros
/// @param given_lengths  nothing where there is no padding
template <class Cell, Sequence T>
Reading<T, Cell::state.size()>
read(const Cell& cell, const T& given_x, const std::optional<std::array<T, Cell::state.size()>>& given_states,
     const std::optional<Integers>& given_lengths, const RecurrentWeights& weights, const Trace& caller)
{
    const std::string function(Cell::function);
    expect_fit(function, given_x, weights);
    const Trace trace = caller.module(Cell::function, [&] { return describe(cell, weights); });
    const Term x = trace.input("x[(b,) n, d_in]", Term(given_x));
    std::optional<Integers> lengths = given_lengths;
    if (lengths) {
        lengths = trace.input("lengths[b]", *given_lengths);
        expect_lengths(function, given_x, *lengths);
    }

    const Shape shape = shape_of_states(given_x, weights);
    std::array<Term<T>, Cell::state.size()> states;
    for (std::size_t part = 0; part < states.size(); ++part) {
        const std::string name = "initial_" + std::string(Cell::state[part]);
        typename T::shape_type sizes;
        std::ranges::copy(shape, sizes.begin());
        T given = given_states ? (*given_states)[part] : T(sizes, 0.0);
        expect_states(function, name, given, shape);
        states[part] = trace.input(states_label<T>(name), Term(std::move(given)));
    }
    return Reader<T, Cell>(cell, states, lengths).run(x, weights, trace);
}

} // namespace attn::recurrent
