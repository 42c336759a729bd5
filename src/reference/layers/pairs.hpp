#pragma once

#include "attn/core/shape.hpp"
#include "attn/reference/ops/terms.hpp"

#include <string>
#include <string_view>

/// The pairs of features that sinusoidal and rotary positions turn, each by an angle that grows with the position.
namespace attn {

inline std::string text(std::size_t number) { return std::to_string(number); }

/// By how much each pair of d features is rotated per position.
/// @param step  label: "frequencies[pairs]"
inline Term<Vector> powers_of(const Term<double>& base, std::size_t d, std::string_view step, const Trace& trace)
{
    return trace(step, power(base, -2.0 * arange(number((d + 1) / 2, trace)) / number(d, trace)));
}

/// The angles by which each pair of features is rotated at each of n positions: (n, pairs).
inline Term<Matrix> angles_of(std::size_t n, std::size_t first, const Term<Vector>& frequencies, const Trace& trace)
{
    const Term counted = arange(number(n, trace));
    const Term positions = first == 0 ? counted : counted + static_cast<double>(first);
    return trace("angles[n, pairs]", outer(positions, frequencies));
}

inline void expect_pairs(std::string_view function, std::size_t d)
{
    if (d % 2 != 0)
        throw ShapeError(std::string(function) + ": " + text(d) +
                         " features do not make pairs, expected an even number");
}

} // namespace attn
