// Our own codec: xtensor's xnpy.hpp trusts the header (shapes unchecked, front() of empty text, products that wrap).
#include "attn/trace_io/npy.hpp"

#include "attn/error.hpp"
#include "npy_header.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

namespace attn {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::size_t longest_header =
    65535; // all that version 1 can hold; versions 2 and 3 need more for records only
constexpr std::size_t chunk_elements = 8192;
constexpr std::int64_t largest_exact = std::int64_t{1} << 53;

// ------------------------------------------------------------------------------------------------ one element

template <class Bits>
Bits little_endian(const char* bytes)
{
    Bits bits = 0;
    for (std::size_t byte = 0; byte < sizeof(Bits); ++byte)
        bits = static_cast<Bits>(bits | (std::uint64_t{static_cast<unsigned char>(bytes[byte])} << (8 * byte)));
    return bits;
}

template <class Bits>
void append_little_endian(std::string& bytes, Bits bits)
{
    for (std::size_t byte = 0; byte < sizeof(Bits); ++byte)
        bytes += static_cast<char>(static_cast<unsigned char>(bits >> (8 * byte)));
}

double decode_float64(const char* bytes) { return std::bit_cast<double>(little_endian<std::uint64_t>(bytes)); }
double decode_float32(const char* bytes) { return std::bit_cast<float>(little_endian<std::uint32_t>(bytes)); }

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

// ------------------------------------------------------------------------------------------------ element types

/// How a file stores one kind of element.
struct Format {
    std::string_view name; ///< NumPy's, after the byte order
    std::size_t bytes;
    ElementType type;
    double (*decode)(const char*);
};

constexpr std::array formats = {
    Format{"f8", 8, ElementType::real, decode_float64},
    Format{"f4", 4, ElementType::real, decode_float32},
    Format{"f2", 2, ElementType::real, decode_float16},
    Format{"b1", 1, ElementType::boolean, decode_boolean},
    Format{"i1", 1, ElementType::integer, decode_integer<std::int8_t>},
    Format{"i2", 2, ElementType::integer, decode_integer<std::int16_t>},
    Format{"i4", 4, ElementType::integer, decode_integer<std::int32_t>},
    Format{"i8", 8, ElementType::integer, decode_integer<std::int64_t>},
    Format{"u1", 1, ElementType::integer, decode_integer<std::uint8_t>},
    Format{"u2", 2, ElementType::integer, decode_integer<std::uint16_t>},
    Format{"u4", 4, ElementType::integer, decode_integer<std::uint32_t>},
    Format{"u8", 8, ElementType::integer, decode_integer<std::uint64_t>},
};

/// What people call an element type that attn has no use for.
std::string describe(std::string_view descr)
{
    switch (descr.size() > 1 ? descr[1] : '\0') {
    case 'c':
        return "complex numbers";
    case 'O':
        return "Python objects";
    case 'S':
    case 'a':
    case 'U':
        return "text";
    case 'V':
        return "raw bytes";
    case 'M':
    case 'm':
        return "dates or times";
    default:
        return "elements";
    }
}

/// @param descr  byte order and name: "<f8"; "|" says that a single byte has no order
const Format& format_of(const std::string& descr)
{
    const char order = descr.empty() ? '\0' : descr.front();
    const std::string_view name = std::string_view(descr).substr(descr.empty() ? 0 : 1);
    const auto format = std::ranges::find(formats, name, &Format::name);
    const auto refused = [&](const std::string& what) {
        return Error("holds " + what + " of type '" + descr +
                     "'; store float64, float32, float16, bool or integers of up to 64 bits, little-endian");
    };
    if (format == formats.end())
        throw refused(describe(descr));
    if (order == '>')
        throw refused("big-endian numbers");
    if (order != '<' && order != '=' && !(order == '|' && format->bytes == 1))
        throw refused("elements");
    return *format;
}

/// The number of elements, where all their bytes can be counted.
std::size_t checked_count(const NpyHeader& header, const Format& format)
{
    // A size of zero hides the others; without it they must still make sense, as in NumPy.
    Shape sizes = header.shape;
    std::ranges::replace(sizes, std::size_t{0}, std::size_t{1});
    if (element_count(sizes) > static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max()) / format.bytes)
        throw Error("has a shape, " + to_string(header.shape) + ", that is larger than any array");
    return element_count(header.shape);
}

// ------------------------------------------------------------------------------------------------ reading

std::string read_text(const ByteSource& source, std::size_t length)
{
    std::string text(length, '\0');
    const std::size_t found = source(text);
    if (found < length)
        throw Error("is truncated: its .npy header ends after " + std::to_string(found) + " of " +
                    std::to_string(length) + " bytes");
    return text;
}

NpyHeader read_header(const ByteSource& source)
{
    const std::string start = read_text(source, magic.size() + 2);
    if (!start.starts_with(magic))
        throw Error("does not begin as an .npy file does; write it with numpy.save or numpy.savez");
    const int version = static_cast<unsigned char>(start[magic.size()]);
    const int minor = static_cast<unsigned char>(start.back());
    if (version < 1 || version > 3 || minor != 0)
        throw Error("has the .npy version " + std::to_string(version) + "." + std::to_string(minor) +
                    ", expected 1.0, 2.0 or 3.0");

    const std::size_t length = version == 1 ? little_endian<std::uint16_t>(read_text(source, 2).data())
                                            : little_endian<std::uint32_t>(read_text(source, 4).data());
    if (length > longest_header)
        throw Error("has an .npy header of " + std::to_string(length) + " bytes, more than " +
                    std::to_string(longest_header));
    return parse_npy_header(read_text(source, length));
}

/// Decodes as the bytes arrive: what the header promises is not allocated beforehand.
std::vector<double> read_values(const ByteSource& source, const Format& format, std::size_t count)
{
    std::vector<double> values;
    std::vector<char> chunk(std::min(chunk_elements, count) * format.bytes);
    while (values.size() < count) {
        const std::size_t wanted = std::min(chunk.size(), (count - values.size()) * format.bytes);
        const std::size_t found = source(std::span(chunk).first(wanted));
        if (found < wanted)
            throw Error("is truncated: it has " + std::to_string(values.size() * format.bytes + found) +
                        " bytes of elements, expected " + std::to_string(count * format.bytes));
        for (std::size_t byte = 0; byte < wanted; byte += format.bytes)
            values.push_back(format.decode(chunk.data() + byte));
    }
    return values;
}

/// Asks for one byte more; at the end of a zip member that is also when its checksum is compared.
void expect_end(const ByteSource& source, const Shape& shape)
{
    char next = 0;
    if (source(std::span(&next, 1)) != 0)
        throw Error("has trailing bytes after the elements of its shape " + to_string(shape));
}

/// Walks the result in order and keeps the place in the other order up to date.
std::vector<double> column_to_row_major(const std::vector<double>& values, const Shape& shape)
{
    Shape strides(shape.size(), 1);
    for (std::size_t axis = 1; axis < shape.size(); ++axis)
        strides[axis] = strides[axis - 1] * shape[axis - 1];

    std::vector<double> result;
    result.reserve(values.size());
    Shape index(shape.size(), 0);
    std::size_t place = 0;
    while (result.size() < values.size()) {
        result.push_back(values[place]);
        for (std::size_t axis = shape.size(); axis-- > 0;) {
            place += strides[axis];
            if (++index[axis] < shape[axis])
                break;
            place -= strides[axis] * shape[axis];
            index[axis] = 0;
        }
    }
    return result;
}

// ------------------------------------------------------------------------------------------------ writing

bool same_bits(double a, double b) { return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b); }

/// True where a float32 gives the number back bit for bit, the sign of zero and what a NaN carries included.
bool is_float32(double value)
{
    if (std::isfinite(value) && std::abs(value) > std::numeric_limits<float>::max())
        return false;
    return same_bits(static_cast<double>(static_cast<float>(value)), value);
}

std::string encode_float32(const std::vector<double>& values)
{
    std::string bytes;
    bytes.reserve(values.size() * 4);
    for (const double value : values)
        append_little_endian(bytes, std::bit_cast<std::uint32_t>(static_cast<float>(value)));
    return bytes;
}

std::string encode_float64(const std::vector<double>& values)
{
    std::string bytes;
    bytes.reserve(values.size() * 8);
    for (const double value : values)
        append_little_endian(bytes, std::bit_cast<std::uint64_t>(value));
    return bytes;
}

std::string encode_booleans(const std::vector<double>& values)
{
    std::string bytes;
    bytes.reserve(values.size());
    for (const double value : values) {
        if (!same_bits(value, 0) && !same_bits(value, 1))
            throw Error("holds " + std::to_string(value) + " where a boolean, 0 or 1, was expected");
        bytes += static_cast<char>(value);
    }
    return bytes;
}

std::string encode_integers(const std::vector<double>& values)
{
    std::string bytes;
    bytes.reserve(values.size() * 8);
    for (const double value : values) {
        const bool in_range = std::abs(value) <= static_cast<double>(largest_exact);
        if (!in_range || !same_bits(static_cast<double>(static_cast<std::int64_t>(value)), value))
            throw Error("holds " + std::to_string(value) + " where a whole number of at most 2^53 was expected");
        append_little_endian(bytes, static_cast<std::uint64_t>(static_cast<std::int64_t>(value)));
    }
    return bytes;
}

struct Encoded {
    std::string descr;
    std::string bytes;
};

Encoded encode_elements(const Array& array)
{
    if (array.type == ElementType::boolean)
        return {"|b1", encode_booleans(array.values)};
    if (array.type == ElementType::integer)
        return {"<i8", encode_integers(array.values)};
    if (std::ranges::all_of(array.values, is_float32))
        return {"<f4", encode_float32(array.values)};
    return {"<f8", encode_float64(array.values)};
}

/// All before the elements, padded with blanks so that they start at a multiple of 64 bytes.
std::string encode_header(const NpyHeader& header)
{
    std::string text = to_text(header);
    const std::size_t before = magic.size() + 4;
    const std::size_t padded = (before + text.size() + 1 + 63) / 64 * 64;
    text.append(padded - before - text.size() - 1, ' ');
    text += '\n';

    std::string bytes(magic);
    bytes += '\1';
    bytes += '\0';
    append_little_endian(bytes, static_cast<std::uint16_t>(text.size()));
    return bytes + text;
}

} // namespace

Array decode_npy(const ByteSource& source, std::size_t most_elements)
{
    const NpyHeader header = read_header(source);
    const Format& format = format_of(header.descr);
    const std::size_t count = checked_count(header, format);
    if (count > most_elements)
        throw Error("has the shape " + to_string(header.shape) + ", more than the " + std::to_string(most_elements) +
                    " elements that are still accepted");

    std::vector<double> values = read_values(source, format, count);
    expect_end(source, header.shape);
    if (header.fortran_order)
        values = column_to_row_major(values, header.shape);
    return {header.shape, std::move(values), format.type};
}

Array decode_npy(std::string_view bytes)
{
    return decode_npy([&](std::span<char> buffer) {
        const std::size_t count = bytes.copy(buffer.data(), buffer.size());
        bytes.remove_prefix(count);
        return count;
    });
}

std::string encode_npy(const Array& array)
{
    if (element_count(array.shape) != array.values.size())
        throw std::logic_error("encode_npy: the shape " + to_string(array.shape) + " does not fit " +
                               std::to_string(array.values.size()) + " values");
    if (array.rank() > most_axes)
        throw Error("has " + std::to_string(array.rank()) + " axes, more than " + std::to_string(most_axes));
    const Encoded elements = encode_elements(array);
    return encode_header({elements.descr, false, array.shape}) + elements.bytes;
}

} // namespace attn
