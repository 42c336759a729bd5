#pragma once

#include "compare.hpp"

#include <optional>
#include <string>
#include <vector>

namespace attn::diff {

/// The right numbers in another layout.
struct Layout {
    std::string text;            ///< "is the reference's transpose"
    Array value;                 ///< in the reference's layout; empty where the array is another step's
    bool has_other_axes = false; ///< and nothing else: its axes stand in another order
};

/// What there is to recognise an array by.
struct Expected {
    const Step& step;           ///< for the letters of its axes
    const Array& value;         ///< what should have been found
    const Tolerance& tolerance; ///< for each of its numbers
    std::size_t heads = 0;      ///< beside the step
};

/// Says how an array that is not what was expected follows from that by moving numbers about: by other axes, another
/// shape, another order along an axis, heads put together otherwise, or true and false exchanged.
std::optional<Layout> recognise(const Array& found, const Expected& expected);

/// What an array of a wrong shape has of the expected one: "has the reference's first 2 of 3 along n, the queries".
std::optional<std::string> recognise_part(const Array& found, const Expected& expected);

} // namespace attn::diff
