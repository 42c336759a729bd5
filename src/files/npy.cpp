// Our own codec: xtensor's xnpy.hpp trusts the header (shapes unchecked, front() of empty text, products that wrap).
#include "attn/files/npy.hpp"

#include "attn/core/error.hpp"
#include "elements.hpp"
#include "npy_header.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace attn::files {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::size_t longest_header =
    65535; // all that version 1 can hold; versions 2 and 3 need more for records only

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

/// @param descr  byte order and name: "<f8"; "|" says that a single byte, or raw ones, have no order
const ElementFormat& format_of(const std::string& descr)
{
    const char order = descr.empty() ? '\0' : descr.front();
    const std::string_view name = std::string_view(descr).substr(descr.empty() ? 0 : 1);
    const auto formats = element_formats();
    const auto format = std::ranges::find(formats, name, &ElementFormat::numpy);
    const auto refused = [&](const std::string& what) {
        return Error("holds " + what + " of type '" + descr +
                     "'; store float64, float32, float16, bfloat16, bool or integers of up to 64 bits, little-endian");
    };
    if (format == formats.end())
        throw refused(describe(descr));
    if (order == '>')
        throw refused("big-endian numbers");
    const bool has_order = format->bytes > 1 && name.front() != 'V';
    if (order != '<' && order != '=' && !(order == '|' && !has_order))
        throw refused("elements");
    return *format;
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

/// Asks for one byte more; at the end of a zip member that is also when its checksum is compared.
void expect_end(const ByteSource& source, const Shape& shape)
{
    char next = 0;
    if (source(std::span(&next, 1)) != 0)
        throw Error("has trailing bytes after the elements of its shape " + to_string(shape));
}

/// The array whose elements a file has with the first axis changing fastest.
Array in_row_major(Array array)
{
    std::ranges::reverse(array.shape);
    std::vector<std::size_t> reversed(array.rank());
    std::iota(reversed.rbegin(), reversed.rend(), std::size_t{0});
    return permuted(array, reversed);
}

// ------------------------------------------------------------------------------------------------ writing

std::string descr_of(const ElementFormat& format)
{
    return (format.bytes == 1 ? '|' : '<') + std::string(format.numpy);
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
    const ElementFormat& format = format_of(header.descr);
    const std::size_t count = checked_count(header.shape);
    if (count > most_elements)
        throw Error("has the shape " + to_string(header.shape) + ", more than the " + std::to_string(most_elements) +
                    " elements that are still accepted");

    Array array{header.shape, read_elements(source, format, count), format.type};
    expect_end(source, header.shape);
    if (header.fortran_order)
        return in_row_major(std::move(array));
    return array;
}

Array decode_npy_outline(const ByteSource& source)
{
    const NpyHeader header = read_header(source);
    checked_count(header.shape);
    return {header.shape, {}, format_of(header.descr).type};
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
    const EncodedElements elements = encode_elements(array);
    return encode_header({descr_of(elements.format), false, array.shape}) + elements.bytes;
}

} // namespace attn::files
