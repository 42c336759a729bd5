#pragma once

#include "attn/layers/recurrent/cell.hpp"
#include "attn/ops/concat.hpp"
#include "attn/ops/matmul.hpp"
#include "attn/shape.hpp"

#include <string>

/// What the gates of recurrent cells are made of.
namespace attn::recurrent {

template <Token T>
constexpr std::size_t features = std::same_as<T, Vector> ? 0 : 1; // the axis behind that of sequences

inline void expect_bias(std::string_view function, std::string_view role, const LinearWeights& weights)
{
    if (weights.bias)
        expect_agreement(function, "d_gates", {role, weights.weight, 1}, {"its bias", *weights.bias, 0});
}

template <Token T>
inline void expect_fit(std::string_view function, const T& x, const T& previous_hidden,
                       const RecurrentCellWeights& weights, std::size_t gates)
{
    const Matrix& recurrent = weights.recurrent.weight;
    expect_agreement(function, "d_in", {"x", x, features<T>}, {"input weights", weights.input.weight, 0});
    expect_agreement(function, "d_hidden", {"previous_hidden", previous_hidden, features<T>},
                     {"recurrent weights", recurrent, 0});
    if constexpr (std::same_as<T, Matrix>)
        expect_agreement(function, "b", {"x", x, 0}, {"previous_hidden", previous_hidden, 0});
    if (recurrent.shape(1) != gates * recurrent.shape(0))
        throw ShapeError(std::string(function) + ": recurrent weights " + to_string(shape_of(recurrent)) +
                         " do not hold " + std::to_string(gates) + " gates of d_hidden columns each, expected " +
                         to_string(Shape{recurrent.shape(0), gates * recurrent.shape(0)}));
    expect_agreement(function, "d_gates", {"input weights", weights.input.weight, 1},
                     {"recurrent weights", recurrent, 1});
    expect_bias(function, "input weights", weights.input);
    expect_bias(function, "recurrent weights", weights.recurrent);
}

template <Token T>
T map(const T& x, const LinearWeights& weights)
{
    const T product = matmul(x, weights.weight);
    if (!weights.bias)
        return product;
    return product + *weights.bias;
}

inline std::string mapping(const LinearWeights& weights, const std::string& of, const std::string& role)
{
    return of + " @ " + role + "_weights" + (weights.bias ? " + " + role + "_bias" : "");
}

/// "2:4", the columns of the second gate.
inline std::string range(std::size_t begin, std::size_t end)
{
    return std::to_string(begin) + ":" + std::to_string(end);
}

inline Vector between(const Vector& x, std::size_t begin, std::size_t end)
{
    return xt::view(x, xt::range(begin, end));
}
inline Matrix between(const Matrix& x, std::size_t begin, std::size_t end) { return columns(x, begin, end); }

/// The columns of some gates of a map.
inline LinearWeights between(const LinearWeights& weights, std::size_t begin, std::size_t end)
{
    LinearWeights part{columns(weights.weight, begin, end)};
    if (weights.bias)
        part.bias = between(*weights.bias, begin, end);
    return part;
}

/// What of the token and of the state the gates are made of.
template <Token T>
struct Parts {
    T input, recurrent;
    std::size_t width; ///< d_hidden

    T sum_of(std::size_t gate) const { return input_of(gate) + recurrent_of(gate); }
    T input_of(std::size_t gate) const { return between(input, gate * width, (gate + 1) * width); }
    T recurrent_of(std::size_t gate) const { return between(recurrent, gate * width, (gate + 1) * width); }

    std::string formula(std::string_view function, std::size_t gate, std::string_view factor = "") const
    {
        const std::string place = "[..., " + range(gate * width, (gate + 1) * width) + "]";
        return std::string(function) + "(input_part" + place + " + " + std::string(factor) + "recurrent_part" + place +
               ")";
    }
};

template <Token T>
T input_part(const T& x, const RecurrentCellWeights& weights, const Trace& trace)
{
    return trace(
        "input_part[(b,) d_gates]", [&] { return mapping(weights.input, "x", "input"); }, map(x, weights.input));
}

template <Token T>
T recurrent_part(const T& previous_hidden, const RecurrentCellWeights& weights, const Trace& trace)
{
    return trace(
        "recurrent_part[(b,) d_gates]", [&] { return mapping(weights.recurrent, "previous_hidden", "recurrent"); },
        map(previous_hidden, weights.recurrent));
}

} // namespace attn::recurrent
