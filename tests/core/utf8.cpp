#include "attn/core/utf8.hpp"

#include "../test.hpp"

#include <algorithm>
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

TEST_CASE("a truncated character is not UTF-8", "[utf8]")
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

TEST_CASE("what is not seen as itself is printed as an escape, whatever it is", "[utf8][hostile]")
{
    CHECK(printable("a\nb\r\t\x1b[31m\x7f") == "a\\nb\\x0D\\x09\\x1B[31m\\x7F");
    CHECK(printable(std::string(1, '\0') + "x") == "\\x00x");
    CHECK(printable("\u009b[31m") == "\\u009B[31m");                         // begins an escape sequence in eight bits
    CHECK(printable("x\u202Ezpn.1\u2066") == "x\\u202Ezpn.1\\u2066");        // turn the direction
    CHECK(printable("a\u2028b\u200bc\uFEFF") == "a\\u2028b\\u200Bc\\uFEFF"); // a line, nothing, nothing
    CHECK(printable("\U000E0041") == "\\U000E0041");
    CHECK(printable("\xff\xC3") == "\\xFF\\xC3");
    CHECK(printable("\xC0\xAF\xE0\x80\x80\xED\xA0\x80\xF4\x90\x80\x80") ==
          "\\xC0\\xAF\\xE0\\x80\\x80\\xED\\xA0\\x80\\xF4\\x90\\x80\\x80"); // too long, half a pair, beyond the last
    CHECK(printable("one é €\u00a0😀") == "one é €\u00a0😀");
    CHECK(printable_lines("one\ntwo\x1b\n") == "one\ntwo\\x1B\n");
    CHECK(printable_lines("") == "");
}

TEST_CASE("every other character is printed as it is", "[utf8]")
{
    // tests/hostile/programs.py prints all that Python's unicodedata has in the categories Cc, Cf, Zl and Zp.
    std::size_t escaped = 0, unprintable = 0;
    for (unsigned point = 0; point <= 0x10FFFF; ++point) {
        if (point >= 0xD800 && point < 0xE000)
            continue;
        const std::string character = encoded(point, shortest(point)), printed = printable(character);
        escaped += printed != character;
        unprintable +=
            printed != character && !std::ranges::all_of(printed, [](char c) { return c > 0x20 && c < 0x7F; });
    }
    CHECK(escaped == 65 + 3 + 5 + 7 + 16 + 1 + 3 + 16 + 4 + 8 + 128);
    CHECK(unprintable == 0);
}

TEST_CASE("a printed text is cut at a length, between characters", "[utf8]")
{
    CHECK(printable("abcdef", 6) == "abcdef");
    CHECK(printable("abcdefg", 6) == "abcdef...");
    CHECK(printable("aéé", 2) == "aé...");
    CHECK(printable(std::string(5000, 'x')).size() == 603);
    CHECK(printable_lines(std::string(5000, 'x')).size() == 5000);
}
