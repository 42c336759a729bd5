#pragma once

#include "states.hpp"
#include "step.hpp"

#include <string>
#include <utility>

/// One direction of one layer: a cell that walks along a sequence.
namespace attn::recurrent {

// --------------------------------------------------------------------------------------------------------------- cells

/// A GRU, as walking along a sequence sees it.
struct GruKind {
    static constexpr std::string_view name = "gru";
    static constexpr bool has_cell = false;
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

    template <Token T>
    LstmStateOf<T> step(const T& x, const LstmStateOf<T>& previous, const RecurrentCellWeights& weights,
                        const Trace& trace) const
    {
        return lstm_step(x, previous, weights, trace);
    }

    void describe(StepOptions&) const {}
};

// ------------------------------------------------------------------------------------------------------------- one way

/// What a cell makes of a sequence.
template <Sequence T>
struct Way {
    T output;                           ///< ((b,) n, d_hidden)
    StateOf<T> last;                    ///< when all was read
    std::string last_hidden, last_cell; ///< which steps that is
};

/// "concat(step.0.hidden[..., None, :], step.1.hidden[..., None, :], axis=-2)"
inline std::string joining(std::size_t n)
{
    std::string parts;
    for (std::size_t i = 0; i < n; ++i)
        parts += "step." + std::to_string(i) + ".hidden[..., None, :], ";
    return "concat(" + parts + "axis=-2)";
}

inline std::string without_padding(const std::string& joined, std::size_t n)
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

} // namespace attn::recurrent
