#pragma once

#include "attn/core/array.hpp"

#include <cstddef>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>

namespace attn::files {

/// Fills a buffer with the next bytes, as many as there are; fewer than it holds, or none, at the end only.
using ByteSource = std::function<std::size_t(std::span<char>)>;

/// Reads NumPy's .npy, versions 1 to 3.
///
/// Real numbers of 2, 4 and 8 bytes, booleans, and whole numbers of 1, 2, 4 and 8 bytes, little-endian, in either
/// order of the axes. Raw elements of 2 bytes, '<V2' or '|V2', are real numbers too: this is how NumPy writes the
/// bfloat16 of the package ml_dtypes, and nothing in the file tells them from other raw bytes. Memory grows with the bytes that arrive, never with what the header promises.
///
/// @param source         the file, from its beginning; read to its end
/// @param most_elements  refuse a larger array before reading it
/// @throws Error  where the header is malformed or promises another number of bytes than there are, where the element
///                type is another one, or where a whole number is beyond 2^53, which a double no longer counts exactly
/// @see https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
Array decode_npy(const ByteSource& source, std::size_t most_elements = std::numeric_limits<std::size_t>::max());

/// The same from bytes in memory.
Array decode_npy(std::string_view bytes);

/// Reads the header alone.
/// @return the array's shape and type, without its values
/// @throws Error  as decode_npy does for a header
Array decode_npy_outline(const ByteSource& source);

/// Writes NumPy's .npy, version 1, with the header that NumPy writes.
///
/// Real numbers become float32 where each is exactly one (so that a stack's weights don't double) and float64
/// otherwise; booleans |b1; whole numbers int64. decode_npy gives the identical array back, NaN for NaN.
///
/// @throws Error             where a boolean is not 0 or 1, a whole number has a fraction or is beyond 2^53, the array
///                           has more than 32 axes, or its sizes but for those of zero are larger than any array
/// @throws std::logic_error  where the array's shape and number of values disagree
std::string encode_npy(const Array& array);

} // namespace attn::files
