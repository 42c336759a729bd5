#pragma once

#include "attn/core/shape.hpp"
#include "attn/core/trace.hpp"
#include "attn/reference/layers/recurrent/recurrent.hpp"
#include "attn/reference/ops/concat.hpp"
#include "attn/reference/ops/terms.hpp"

#include <optional>
#include <string>

/// The gates of recurrent cells: linear maps of the token and of the hidden state, added up.
namespace attn::recurrent {

template <Token T>
constexpr std::size_t last_axis = std::same_as<T, Vector> ? 0 : 1;

/// Columns from begin up to, not including, end.
struct Columns {
    std::size_t begin, end;

    Vector of(const Vector& x) const { return xt::view(x, xt::range(begin, end)); }
    Matrix of(const Matrix& x) const { return columns(x, begin, end); }
    /// "input_part[..., 2:4]"
    /// @param before  "..., "
    template <class T>
    Term<T> of(const Term<T>& x, const std::string& before = "..., ") const
    {
        return {of(*x),
                with_suffix(x.wording(), "[" + before + std::to_string(begin) + ":" + std::to_string(end) + "]")};
    }
};

/// A linear map that the trace has names for: x @ input_weights + input_bias.
struct NamedMap {
    Term<Matrix> weight;
    std::optional<Term<Vector>> bias;

    template <Token T>
    Term<T> apply(const Term<T>& x) const
    {
        return bias ? matmul(x, weight) + *bias : matmul(x, weight);
    }

    /// The same map to some of its columns.
    NamedMap some(const Columns& columns) const
    {
        return {columns.of(weight, ":, "), bias ? std::optional(columns.of(*bias, "")) : std::nullopt};
    }
};

/// The parameters of a cell, named.
struct NamedCell {
    NamedMap input, recurrent;
};

inline NamedCell name_weights(const RecurrentCellWeights& weights, const Trace& trace)
{
    const auto named = [&](const char* matrix, const char* bias, const LinearWeights& map) {
        NamedMap found{trace.input(matrix, Term(map.weight)), {}};
        if (map.bias)
            found.bias = trace.input(bias, Term(*map.bias));
        return found;
    };
    return {named("input_weights[d_in, d_gates]", "input_bias[d_gates]", weights.input),
            named("recurrent_weights[d_hidden, d_gates]", "recurrent_bias[d_gates]", weights.recurrent)};
}

template <Token T>
void expect_fit(std::string_view function, const Term<T>& x, const Term<T>& previous_hidden, const NamedCell& cell,
                std::size_t gates)
{
    const Matrix &input = *cell.input.weight, &recurrent = *cell.recurrent.weight;
    expect_agreement(function, "d_in", {"x", x, last_axis<T>}, {"input weights", input, 0});
    expect_agreement(function, "d_hidden", {"previous_hidden", previous_hidden, last_axis<T>},
                     {"recurrent weights", recurrent, 0});
    if constexpr (std::same_as<T, Matrix>)
        expect_agreement(function, "b", {"x", x, 0}, {"previous_hidden", previous_hidden, 0});
    if (recurrent.shape(1) != gates * recurrent.shape(0))
        throw ShapeError(function, ": recurrent weights ", shape_of(recurrent), " do not hold ", gates,
                         " gates of d_hidden columns each, expected ",
                         Shape{recurrent.shape(0), gates * recurrent.shape(0)});
    expect_agreement(function, "d_gates", {"input weights", input, 1}, {"recurrent weights", recurrent, 1});
    if (cell.input.bias)
        expect_agreement(function, "d_gates", {"input weights", input, 1}, {"its bias", *cell.input.bias, 0});
    if (cell.recurrent.bias)
        expect_agreement(function, "d_gates", {"recurrent weights", recurrent, 1},
                         {"its bias", *cell.recurrent.bias, 0});
}

/// What the token and the hidden state give to each gate, d_hidden columns per gate.
template <Token T>
struct Gates {
    Term<T> input_part, recurrent_part;
    std::size_t d_hidden;

    Columns columns_of(std::size_t gate) const { return {gate * d_hidden, (gate + 1) * d_hidden}; }
    Term<T> input(std::size_t gate) const { return columns_of(gate).of(input_part); }
    Term<T> recurrent(std::size_t gate) const { return columns_of(gate).of(recurrent_part); }
    Term<T> sum(std::size_t gate) const { return input(gate) + recurrent(gate); }
};

} // namespace attn::recurrent
