#pragma once

#include "attn/core/shape.hpp"
#include "attn/core/trace.hpp"
#include "attn/reference/ops/matmul.hpp"

#include <string>
#include <string_view>

/// The pairs of features that sinusoidal and rotary positions turn, each by an angle that grows with the position.
namespace attn {

inline std::string text(std::size_t number) { return std::to_string(number); }

inline Vector counted_from(std::size_t first, std::size_t count)
{
    Vector numbers(Vector::shape_type{count});
    for (std::size_t i = 0; i < count; ++i)
        numbers(i) = static_cast<double>(first + i);
    return numbers;
}

/// By how much each pair of d features is rotated per position.
/// @param step       label: "frequencies[pairs]"
/// @param base       of the powers
/// @param base_text  the base in the formula: a number, or the name of a step
inline Vector powers_of(double base, std::string_view base_text, std::size_t d, std::string_view step,
                        const Trace& trace)
{
    const std::size_t pairs = (d + 1) / 2;
    const Vector exponents = -2.0 * counted_from(0, pairs) / static_cast<double>(d);
    return trace(
        step, [&] { return std::string(base_text) + " ** (-2 * arange(" + text(pairs) + ") / " + text(d) + ")"; },
        Vector(xt::pow(base, exponents)));
}

/// The same of a base that is a number.
inline Vector powers_of(double base, std::size_t d, std::string_view step, const Trace& trace)
{
    return powers_of(base, exact_text(base), d, step, trace);
}

/// "arange(4) + 3": the positions of n tokens.
inline std::string positions_text(std::size_t n, std::size_t first)
{
    return "arange(" + text(n) + ")" + (first == 0 ? "" : " + " + text(first));
}

/// The angles by which each pair of features is rotated at each position: (n, pairs).
inline Matrix angles_of(std::size_t n, std::size_t first, const Vector& frequencies, const Trace& trace)
{
    return trace(
        "angles[n, pairs]", [&] { return "outer(" + positions_text(n, first) + ", frequencies)"; },
        outer(counted_from(first, n), frequencies));
}

/// The features of the two members of a pair: its sine or first, and its cosine or second.
struct Pair {
    std::size_t first, second;
};

inline Pair pair_of(std::size_t pair, std::size_t d, bool halves)
{
    return halves ? Pair{pair, pair + (d + 1) / 2} : Pair{2 * pair, 2 * pair + 1};
}

inline void expect_pairs(std::string_view function, std::size_t d)
{
    if (d % 2 != 0)
        throw ShapeError(std::string(function) + ": " + text(d) +
                         " features do not make pairs, expected an even number");
}

} // namespace attn
