#include "attn/core/utf8.hpp"

#include <algorithm>
#include <array>

namespace attn {
namespace {

/// How many bytes a character with this first byte has.
std::size_t length_after(unsigned first)
{
    if (first < 0x80)
        return 1;
    if (first < 0xC2 || first > 0xF4)
        return 0;
    return first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

/// The code point of a whole character.
unsigned code_point(std::string_view character)
{
    if (character.size() == 1)
        return static_cast<unsigned char>(character[0]);
    unsigned point = static_cast<unsigned char>(character[0]) & (0x7F >> character.size());
    for (const char byte : character.substr(1))
        point = point << 6 | (static_cast<unsigned char>(byte) & 0x3F);
    return point;
}

/// Unicode's categories Cc, Cf, Zl and Zp, but for the signs around Arabic, Syriac and Kaithi numbers, which are seen.
bool is_seen(unsigned point)
{
    struct Range {
        unsigned first, last;
    };
    static constexpr std::array<Range, 14> unseen{{{0x00, 0x1F},
                                                   {0x7F, 0x9F},
                                                   {0xAD, 0xAD},
                                                   {0x61C, 0x61C},
                                                   {0x180E, 0x180E},
                                                   {0x200B, 0x200F},
                                                   {0x2028, 0x202E},
                                                   {0x2060, 0x206F},
                                                   {0xFEFF, 0xFEFF},
                                                   {0xFFF9, 0xFFFB},
                                                   {0x13430, 0x1343F},
                                                   {0x1BCA0, 0x1BCA3},
                                                   {0x1D173, 0x1D17A},
                                                   {0xE0000, 0xE007F}}};
    return std::ranges::none_of(unseen,
                                [&](const Range& range) { return range.first <= point && point <= range.last; });
}

/// "\x1B" for two digits, "\u202E" for four, "\U000E0001" for eight.
std::string escape(char kind, unsigned point, int digits)
{
    std::string text{'\\', kind};
    for (int digit = digits - 1; digit >= 0; --digit)
        text += "0123456789ABCDEF"[point >> (4 * digit) & 0xF];
    return text;
}

/// The character that a text begins with, or its first byte, as it is shown.
std::string shown(std::string_view character)
{
    if (!is_utf8(character))
        return escape('x', static_cast<unsigned char>(character[0]), 2);
    const unsigned point = code_point(character);
    if (point == '\n')
        return "\\n";
    if (is_seen(point))
        return std::string(character);
    return point < 0x80 ? escape('x', point, 2) : point < 0x10000 ? escape('u', point, 4) : escape('U', point, 8);
}

} // namespace

std::size_t utf8_length(std::string_view text)
{
    const auto byte = [&](std::size_t i) -> unsigned { return static_cast<unsigned char>(text[i]); };
    const std::size_t length = text.empty() ? 0 : length_after(byte(0));
    if (length > text.size())
        return 0;
    for (std::size_t i = 1; i < length; ++i)
        if (byte(i) < 0x80 || byte(i) > 0xBF)
            return 0;
    if (length < 3)
        return length;
    const unsigned begin = byte(0) << 8 | byte(1);
    const bool is_longer_than_needed = (begin >= 0xE000 && begin < 0xE0A0) || (begin >= 0xF000 && begin < 0xF090);
    const bool is_half_of_a_pair = begin >= 0xEDA0 && begin < 0xEE00;
    const bool is_beyond_the_last = begin >= 0xF490;
    return is_longer_than_needed || is_half_of_a_pair || is_beyond_the_last ? 0 : length;
}

bool is_utf8(std::string_view text)
{
    while (!text.empty()) {
        const std::size_t length = utf8_length(text);
        if (length == 0)
            return false;
        text.remove_prefix(length);
    }
    return true;
}

std::string printable(std::string_view text, std::size_t longest)
{
    std::string line;
    while (!text.empty() && line.size() < longest) {
        const std::size_t length = std::max<std::size_t>(utf8_length(text), 1);
        line += shown(text.substr(0, length));
        text.remove_prefix(length);
    }
    return text.empty() ? line : line + "...";
}

std::string printable_lines(std::string_view text)
{
    std::string lines;
    while (true) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        lines += printable(text.substr(0, end), std::string_view::npos);
        if (end == text.size())
            return lines;
        lines += '\n';
        text.remove_prefix(end + 1);
    }
}

} // namespace attn
