#pragma once

#include "attn/core/array.hpp"
#include "attn/files/npy.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace attn::files {

/// NumPy's own limit. Arrays of other formats must keep it too, since they can be written as .npy.
inline constexpr std::size_t most_axes = 32;

/// How files store one kind of element: what .npy and safetensors share but for the name.
struct ElementFormat {
    std::string_view numpy;       ///< NumPy's name, after the byte order: "f8"
    std::string_view safetensors; ///< "F64"
    std::size_t bytes;            ///< of one element
    ElementType type;             ///< what it stands for
    void (*decode)(const char* bytes, std::size_t count, double* values);
};

/// All that are understood. One of 2 bytes that NumPy has no name for, V2, is the bfloat16 of the package ml_dtypes.
std::span<const ElementFormat> element_formats();

/// The number of elements of a shape, where their bytes can be counted in any format, so that what is read can be
/// written in another one.
/// @throws Error  where they can't, or could not but for a size of zero; where there are more axes than most_axes
std::size_t checked_count(const Shape& shape);

/// What a header promises: nothing is allocated for it before the bytes arrive; or what the file is known to hold.
enum class Count { promised, known };

/// Decodes as the bytes arrive.
/// @throws Error  where the source ends before, or an element is not what the format says
std::vector<double> read_elements(const ByteSource& source, const ElementFormat& format, std::size_t count,
                                  Count trust = Count::promised);

/// The bytes of an array's elements, and how they are stored.
struct EncodedElements {
    const ElementFormat& format;
    std::string bytes;
};

/// Real numbers become float32 where each is exactly one and float64 otherwise, whole numbers int64.
///
/// @throws Error             where a boolean is not 0 or 1, a whole number has a fraction or is beyond 2^53, or the
///                           shape has more than most_axes axes or cannot be counted
/// @throws std::logic_error  where the array's shape and number of values disagree
EncodedElements encode_elements(const Array& array);

template <class Bits>
Bits little_endian(const char* bytes)
{
    Bits bits = 0;
    if constexpr (std::endian::native == std::endian::little) {
        std::memcpy(&bits, bytes, sizeof bits);
        return bits;
    }
    for (std::size_t byte = 0; byte < sizeof(Bits); ++byte)
        bits = static_cast<Bits>(bits | (std::uint64_t{static_cast<unsigned char>(bytes[byte])} << (8 * byte)));
    return bits;
}

template <class Bits>
void store_little_endian(char* bytes, Bits bits)
{
    if constexpr (std::endian::native == std::endian::little)
        std::memcpy(bytes, &bits, sizeof bits);
    else
        for (std::size_t byte = 0; byte < sizeof(Bits); ++byte)
            bytes[byte] = static_cast<char>(static_cast<unsigned char>(bits >> (8 * byte)));
}

template <class Bits>
void append_little_endian(std::string& bytes, Bits bits)
{
    bytes.resize(bytes.size() + sizeof bits);
    store_little_endian(bytes.data() + bytes.size() - sizeof bits, bits);
}

} // namespace attn::files
