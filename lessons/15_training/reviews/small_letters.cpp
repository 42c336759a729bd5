#include "small_letters.hpp"

#include "attn/core/error.hpp"
#include "attn/core/utf8.hpp"

#include <clocale>
#include <cwctype>

#include <locale.h>

namespace attn::train {
namespace {

/// Unicode's letters, which glibc has in every language's locale.
locale_t unicode()
{
    static const locale_t locale = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", locale_t{});
    if (locale == locale_t{})
        throw Error("the locale C.UTF-8 is missing, which says which letters are capitals");
    return locale;
}

void append(std::string& text, unsigned point)
{
    const auto rest = [&](int shift) { text += static_cast<char>(0x80 | (point >> shift & 0x3F)); };
    if (point < 0x80) {
        text += static_cast<char>(point);
    } else if (point < 0x800) {
        text += static_cast<char>(0xC0 | point >> 6);
        rest(0);
    } else if (point < 0x10000) {
        text += static_cast<char>(0xE0 | point >> 12);
        rest(6);
        rest(0);
    } else {
        text += static_cast<char>(0xF0 | point >> 18);
        rest(12);
        rest(6);
        rest(0);
    }
}

} // namespace

std::string in_small_letters(std::string_view text)
{
    const locale_t letters = unicode();
    std::string small;
    for (std::size_t length = 0; !text.empty(); text.remove_prefix(length)) {
        length = utf8_length(text);
        unsigned point = static_cast<unsigned char>(text[0]);
        if (length > 1) {
            point &= 0x7FU >> length;
            for (const char byte : text.substr(1, length - 1))
                point = point << 6 | (static_cast<unsigned char>(byte) & 0x3F);
        }
        append(small, static_cast<unsigned>(::towlower_l(static_cast<std::wint_t>(point), letters)));
    }
    return small;
}

} // namespace attn::train
