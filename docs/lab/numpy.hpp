#pragma once

#include "attn/core/array.hpp"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Functions of NumPy and Python that lines need beside those of the formulas: they make arrays, lists and numbers.
namespace attn::lab {

/// What a function is called with.
struct Given {
    std::vector<Array> arrays; ///< in their order
    std::map<std::string, Array, std::less<>> keywords = {};
    std::optional<ElementType> type = {}; ///< dtype=int
};

using NumpyFunction = Array (*)(const Given& given);

/// By name: zeros, stack, argmax, …
/// @return nullptr where there is no such function
NumpyFunction numpy_function(std::string_view name);

/// Several arrays of one shape as one with an axis more, the first; no arrays are an array (0).
/// @throws Error where their shapes differ
Array stacked(const std::vector<Array>& arrays);

/// The places of what is true.
Array places_of_true(const Array& mask);

} // namespace attn::lab
