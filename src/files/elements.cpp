#include "elements.hpp"

#include "attn/core/budget.hpp"
#include "attn/core/error.hpp"
#include "attn/core/memory.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace attn::files {
namespace {

constexpr std::size_t chunk_elements = 8192;
constexpr std::size_t trusted_elements = std::size_t{1} << 20; // 8 MiB, untouched until they come
constexpr std::int64_t largest_exact = std::int64_t{1} << 53;

// ------------------------------------------------------------------------------------------------ reading

double decode_float64(const char* bytes) { return std::bit_cast<double>(little_endian<std::uint64_t>(bytes)); }
double decode_float32(const char* bytes) { return std::bit_cast<float>(little_endian<std::uint32_t>(bytes)); }

/// The upper half of a float32.
double decode_bfloat16(const char* bytes)
{
    return std::bit_cast<float>(std::uint32_t{little_endian<std::uint16_t>(bytes)} << 16);
}

/// One bit of sign, five of exponent with bias 15, ten of fraction.
double decode_float16(const char* bytes)
{
    const auto bits = little_endian<std::uint16_t>(bytes);
    const int exponent = (bits >> 10) & 31;
    const int fraction = bits & 1023;
    const double sign = (bits >> 15) != 0 ? -1 : 1;
    if (exponent == 31)
        return std::copysign(fraction == 0 ? INFINITY : NAN, sign);
    return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
}

double decode_boolean(const char* bytes)
{
    if (*bytes != 0 && *bytes != 1)
        throw Error("holds the byte " + std::to_string(static_cast<unsigned char>(*bytes)) +
                    " where a boolean, 0 or 1, was expected");
    return *bytes;
}

template <class Integer>
double decode_integer(const char* bytes)
{
    const auto integer = static_cast<Integer>(little_endian<std::make_unsigned_t<Integer>>(bytes));
    if (std::cmp_greater(integer, largest_exact) || std::cmp_less(integer, -largest_exact))
        throw Error("holds the whole number " + std::to_string(integer) +
                    ", beyond 2^53, where doubles skip some; store real numbers, or smaller ones");
    return static_cast<double>(integer);
}

/// One after the other, so that the compiler sees the loop.
template <double (*decode)(const char*), std::size_t bytes>
void decode_each(const char* from, std::size_t count, double* values)
{
    for (std::size_t i = 0; i < count; ++i)
        values[i] = decode(from + i * bytes);
}

constexpr std::array known_formats = {
    ElementFormat{"f8", "F64", 8, ElementType::real, decode_each<decode_float64, 8>},
    ElementFormat{"f4", "F32", 4, ElementType::real, decode_each<decode_float32, 4>},
    ElementFormat{"f2", "F16", 2, ElementType::real, decode_each<decode_float16, 2>},
    ElementFormat{"V2", "BF16", 2, ElementType::real, decode_each<decode_bfloat16, 2>},
    ElementFormat{"b1", "BOOL", 1, ElementType::boolean, decode_each<decode_boolean, 1>},
    ElementFormat{"i1", "I8", 1, ElementType::integer, decode_each<decode_integer<std::int8_t>, 1>},
    ElementFormat{"i2", "I16", 2, ElementType::integer, decode_each<decode_integer<std::int16_t>, 2>},
    ElementFormat{"i4", "I32", 4, ElementType::integer, decode_each<decode_integer<std::int32_t>, 4>},
    ElementFormat{"i8", "I64", 8, ElementType::integer, decode_each<decode_integer<std::int64_t>, 8>},
    ElementFormat{"u1", "U8", 1, ElementType::integer, decode_each<decode_integer<std::uint8_t>, 1>},
    ElementFormat{"u2", "U16", 2, ElementType::integer, decode_each<decode_integer<std::uint16_t>, 2>},
    ElementFormat{"u4", "U32", 4, ElementType::integer, decode_each<decode_integer<std::uint32_t>, 4>},
    ElementFormat{"u8", "U64", 8, ElementType::integer, decode_each<decode_integer<std::uint64_t>, 8>},
};

// ------------------------------------------------------------------------------------------------ writing

const ElementFormat& format_of_numpy(std::string_view numpy)
{
    return *std::ranges::find(known_formats, numpy, &ElementFormat::numpy);
}

bool same_bits(double a, double b) { return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b); }

/// True where a float32 gives the number back bit for bit, the sign of zero and what a NaN carries included.
bool is_float32(double value)
{
    if (std::isfinite(value) && std::abs(value) > std::numeric_limits<float>::max())
        return false;
    return same_bits(static_cast<double>(static_cast<float>(value)), value);
}

std::uint32_t encode_float32(double value) { return std::bit_cast<std::uint32_t>(static_cast<float>(value)); }
std::uint64_t encode_float64(double value) { return std::bit_cast<std::uint64_t>(value); }

std::uint8_t encode_boolean(double value)
{
    if (!same_bits(value, 0) && !same_bits(value, 1))
        throw Error("holds " + std::to_string(value) + " where a boolean, 0 or 1, was expected");
    return static_cast<std::uint8_t>(value);
}

std::uint64_t encode_integer(double value)
{
    const bool in_range = std::abs(value) <= static_cast<double>(largest_exact);
    if (!in_range || !same_bits(static_cast<double>(static_cast<std::int64_t>(value)), value))
        throw Error("holds " + std::to_string(value) + " where a whole number of at most 2^53 was expected");
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
}

/// Elements as a file has them: what each value becomes, one after the other.
template <class Bits>
EncodedElements encode_each(std::string_view format, const std::vector<double>& values, Bits (*encode)(double))
{
    EncodedElements elements{format_of_numpy(format), {}};
    elements.bytes.resize(values.size() * sizeof(Bits));
    char* to = elements.bytes.data();
    for (const double value : values) {
        store_little_endian(to, encode(value));
        to += sizeof(Bits);
    }
    return elements;
}

} // namespace

std::span<const ElementFormat> element_formats() { return known_formats; }

std::size_t checked_count(const Shape& shape)
{
    if (shape.size() > most_axes)
        throw Error("has " + std::to_string(shape.size()) + " axes, more than " + std::to_string(most_axes));
    // A size of zero hides the others; without it they must still make sense, as in NumPy.
    constexpr auto most_bytes = static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max());
    std::size_t bytes = std::ranges::max(known_formats, {}, &ElementFormat::bytes).bytes;
    for (const std::size_t size : shape)
        if (__builtin_mul_overflow(bytes, std::max(size, std::size_t{1}), &bytes) || bytes > most_bytes)
            throw Error("has a shape, " + to_string(shape) + ", that is larger than any array");
    return element_count(shape);
}

std::vector<double> read_elements(const ByteSource& source, const ElementFormat& format, std::size_t count, Count trust)
{
    constexpr double operations_each = 16;
    std::vector<double> values;
    std::vector<char> chunk(std::min(chunk_elements, count) * format.bytes);
    while (values.size() < count) {
        const std::size_t before = values.size();
        const std::size_t wanted = std::min(chunk.size(), (count - before) * format.bytes);
        const std::size_t found = source(std::span(chunk).first(wanted));
        if (found < wanted)
            throw Error("is truncated: it has " + std::to_string(before * format.bytes + found) +
                        " bytes of elements, expected " + std::to_string(count * format.bytes));
        spend(operations_each * static_cast<double>(wanted / format.bytes));
        if (const std::size_t needed = before + wanted / format.bytes; values.capacity() < needed) {
            const std::size_t room =
                trust == Count::known ? count : std::min(count, std::max(trusted_elements, 2 * needed));
            expect_memory("its array", {room});
            values.reserve(room);
        }
        values.resize(before + wanted / format.bytes);
        format.decode(chunk.data(), wanted / format.bytes, values.data() + before);
    }
    return values;
}

EncodedElements encode_elements(const Array& array)
{
    if (element_count(array.shape) != array.values.size())
        throw std::logic_error("encode_elements: the shape " + to_string(array.shape) + " does not fit " +
                               std::to_string(array.values.size()) + " values");
    checked_count(array.shape);
    if (array.type == ElementType::boolean)
        return encode_each("b1", array.values, encode_boolean);
    if (array.type == ElementType::integer)
        return encode_each("i8", array.values, encode_integer);
    if (std::ranges::all_of(array.values, is_float32))
        return encode_each("f4", array.values, encode_float32);
    return encode_each("f8", array.values, encode_float64);
}

} // namespace attn::files
