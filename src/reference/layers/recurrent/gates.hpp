#pragma once

#include "attn/core/shape.hpp"
#include "attn/core/trace.hpp"
#include "attn/reference/layers/recurrent/recurrent.hpp"
#include "attn/reference/ops/concat.hpp"
#include "attn/reference/ops/matmul.hpp"

#include <optional>
#include <string>

/// The gates of recurrent cells: linear maps of the token and of the hidden state, added up.
namespace attn::recurrent {

template <Token T>
constexpr std::size_t last_axis = std::same_as<T, Vector> ? 0 : 1;

/// Columns from begin up to, not including, end.
struct Columns {
    std::size_t begin, end;

    std::string text() const { return std::to_string(begin) + ":" + std::to_string(end); }
    Vector of(const Vector& x) const { return xt::view(x, xt::range(begin, end)); }
    Matrix of(const Matrix& x) const { return columns(x, begin, end); }
};

/// A linear map whose matrix and bias the trace has names for: `input_weights` and `input_bias`.
struct NamedMap {
    std::string role; ///< "input"
    const Matrix& weight;
    const Vector* bias; ///< nullptr where the map has none

    /// x @ weight + bias, or only some of its columns
    template <Token T>
    T apply(const T& x, const std::optional<Columns>& some = {}) const
    {
        const T product = some ? matmul(x, some->of(weight)) : matmul(x, weight);
        if (bias == nullptr)
            return product;
        return some ? T(product + some->of(*bias)) : T(product + *bias);
    }

    /// "x @ input_weights + input_bias", or "x @ input_weights[:, 0:4] + input_bias[0:4]"
    auto formula(const char* x, const std::optional<Columns>& some = {}) const
    {
        return [=, this] {
            return x + (" @ " + role) + "_weights" + (some ? "[:, " + some->text() + "]" : "") +
                   (bias == nullptr ? "" : " + " + role + "_bias" + (some ? "[" + some->text() + "]" : ""));
        };
    }
};

/// The parameters of a cell, named.
struct NamedCell {
    NamedMap input, recurrent;
};

inline NamedCell name_weights(const RecurrentCellWeights& weights, const Trace& trace)
{
    const auto named = [&](std::string role, const char* matrix, const char* bias, const LinearWeights& map) {
        const Matrix& weight = trace.input(matrix, map.weight);
        return NamedMap{std::move(role), weight, map.bias ? &trace.input(bias, *map.bias) : nullptr};
    };
    return {named("input", "input_weights[d_in, d_gates]", "input_bias[d_gates]", weights.input),
            named("recurrent", "recurrent_weights[d_hidden, d_gates]", "recurrent_bias[d_gates]", weights.recurrent)};
}

template <Token T>
void expect_fit(std::string_view function, const T& x, const T& previous_hidden, const NamedCell& cell,
                std::size_t gates)
{
    const Matrix &input = cell.input.weight, &recurrent = cell.recurrent.weight;
    expect_agreement(function, "d_in", {"x", x, last_axis<T>}, {"input weights", input, 0});
    expect_agreement(function, "d_hidden", {"previous_hidden", previous_hidden, last_axis<T>},
                     {"recurrent weights", recurrent, 0});
    if constexpr (std::same_as<T, Matrix>)
        expect_agreement(function, "b", {"x", x, 0}, {"previous_hidden", previous_hidden, 0});
    if (recurrent.shape(1) != gates * recurrent.shape(0))
        throw ShapeError(std::string(function) + ": recurrent weights " + to_string(shape_of(recurrent)) +
                         " do not hold " + std::to_string(gates) + " gates of d_hidden columns each, expected " +
                         to_string(Shape{recurrent.shape(0), gates * recurrent.shape(0)}));
    expect_agreement(function, "d_gates", {"input weights", input, 1}, {"recurrent weights", recurrent, 1});
    if (cell.input.bias != nullptr)
        expect_agreement(function, "d_gates", {"input weights", input, 1}, {"its bias", *cell.input.bias, 0});
    if (cell.recurrent.bias != nullptr)
        expect_agreement(function, "d_gates", {"recurrent weights", recurrent, 1},
                         {"its bias", *cell.recurrent.bias, 0});
}

/// What the token and the hidden state give to each gate, d_hidden columns per gate.
template <Token T>
struct Gates {
    T input_part, recurrent_part;
    std::size_t d_hidden;

    Columns columns_of(std::size_t gate) const { return {gate * d_hidden, (gate + 1) * d_hidden}; }
    T input(std::size_t gate) const { return columns_of(gate).of(input_part); }
    T recurrent(std::size_t gate) const { return columns_of(gate).of(recurrent_part); }
    T sum(std::size_t gate) const { return input(gate) + recurrent(gate); }

    /// "sigmoid(input_part[..., 2:4] + recurrent_part[..., 2:4])"
    auto formula(const char* function, std::size_t gate, const char* factor = "") const
    {
        return [=, some = columns_of(gate)] {
            const std::string place = "[..., " + some.text() + "]";
            return std::string(function) + "(input_part" + place + " + " + factor + "recurrent_part" + place + ")";
        };
    }
};

} // namespace attn::recurrent
