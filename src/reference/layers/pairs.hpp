#pragma once

#include "attn/core/shape.hpp"
#include "attn/reference/ops/terms.hpp"

#include <optional>
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

/// Whole numbers as numbers to compute with.
inline Term<Vector> numbers_of(const Term<Integers>& whole) { return {Vector(*whole), whole.wording()}; }

/// Where n tokens stand that follow each other.
inline Term<Vector> positions_from(std::size_t first, std::size_t n, const Trace& trace)
{
    const Term counted = arange(number(n, trace));
    return first == 0 ? counted : counted + static_cast<double>(first);
}

/// Where n tokens stand: as given, or one after the other.
/// @param given  a scope around can have named them
inline Term<Vector> positions_of(const std::optional<Integers>& given, std::size_t first, std::size_t n,
                                 const Trace& trace)
{
    if (!given)
        return positions_from(first, n, trace);
    if (given->size() != n)
        throw ShapeError("positions are given of ", given->size(), " tokens, and there are ", n);
    return numbers_of(trace.shared_input("positions[n]", Term(*given)));
}

/// The angles by which each pair of features is rotated at each position: (n, pairs).
inline Term<Matrix> angles_of(const Term<Vector>& positions, const Term<Vector>& frequencies, const Trace& trace)
{
    return trace("angles[n, pairs]", outer(positions, frequencies));
}

inline void expect_pairs(std::string_view function, std::size_t d)
{
    if (d % 2 != 0)
        throw ShapeError(function, ": ", text(d), " features do not make pairs, expected an even number");
}

} // namespace attn
