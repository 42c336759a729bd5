#include "attn/utf8.hpp"

#include <algorithm>

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

std::size_t visible_length(std::string_view text)
{
    const std::size_t length = utf8_length(text);
    const bool is_ascii_control = length == 1 && (static_cast<unsigned char>(text[0]) < 0x20 || text[0] == 0x7F);
    const bool is_late_control = length == 2 && text[0] == '\xC2' && static_cast<unsigned char>(text[1]) < 0xA0;
    return is_ascii_control || is_late_control ? 0 : length;
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

} // namespace attn
