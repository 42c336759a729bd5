#include "attn/utf8.hpp"

#include "test.hpp"

#include <string>

using namespace attn;

namespace {

/// A code point as the definition of UTF-8 writes it, in as many bytes as the caller chooses.
std::string encoded(unsigned point, std::size_t length)
{
    if (length == 1)
        return std::string(1, static_cast<char>(point));
    std::string text(length, '\0');
    for (std::size_t i = length; i-- > 1; point >>= 6)
        text[i] = static_cast<char>(0x80 | (point & 0x3F));
    text[0] = static_cast<char>((0xF00 >> length & 0xFF) | point);
    return text;
}

std::size_t shortest(unsigned point) { return point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4; }

} // namespace

TEST_CASE("every code point has its length, but for the halves of UTF-16's pairs", "[utf8]")
{
    std::size_t wrong = 0;
    for (unsigned point = 0; point <= 0x10FFFF; ++point) {
        const std::size_t length = shortest(point);
        const bool is_half = point >= 0xD800 && point < 0xE000;
        wrong += utf8_length(encoded(point, length) + "x") != (is_half ? 0 : length);
        if (length < 4) // written longer than it need be
            wrong += utf8_length(encoded(point, length + 1)) != 0;
    }
    CHECK(wrong == 0);
    CHECK(utf8_length(encoded(0x110000, 4)) == 0);
}

TEST_CASE("no other two or three bytes are a character", "[utf8]")
{
    std::size_t of_two = 0, of_three = 0;
    std::string text(3, '\0');
    for (int first = 0; first < 256; ++first)
        for (int second = 0; second < 256; ++second) {
            text[0] = static_cast<char>(first);
            text[1] = static_cast<char>(second);
            of_two += utf8_length(std::string_view(text).substr(0, 2)) == 2;
            for (int third = 0; third < 256; ++third) {
                text[2] = static_cast<char>(third);
                of_three += utf8_length(text) == 3;
            }
        }
    CHECK(of_two == 0x800 - 0x80);
    CHECK(of_three == 0x10000 - 0x800 - 0x800);
}

TEST_CASE("a character that is cut is none, and a text is whole characters or no UTF-8", "[utf8]")
{
    CHECK(is_utf8("a\u00e9\u2581\U0001F600"));
    CHECK(is_utf8(""));
    CHECK(utf8_length("") == 0);
    for (const std::string character : {"\u00e9", "\u2581", "\U0001F600"})
        for (std::size_t cut = 1; cut < character.size(); ++cut) {
            CHECK(utf8_length(character.substr(0, cut)) == 0);
            CHECK(utf8_length(character.substr(cut)) == 0);
            CHECK_FALSE(is_utf8("a" + character.substr(0, cut)));
        }
    CHECK_FALSE(is_utf8("\xff"));
}

TEST_CASE("a control character is a character, but not a visible one", "[utf8]")
{
    for (const std::string& control : {std::string(1, '\0'), std::string("\n"), std::string("\x1b"),
                                       std::string("\x7f"), std::string("\xc2\x80"), std::string("\u009f")}) {
        CHECK(utf8_length(control) == control.size());
        CHECK(visible_length(control) == 0);
    }
    CHECK(visible_length(" ") == 1);
    CHECK(visible_length("\u00a0") == 2);
    CHECK(visible_length("\xff") == 0);
}
