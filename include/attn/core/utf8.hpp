#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace attn {

/// How many bytes the UTF-8 character has that a text begins with: 1 to 4; 0 where it begins with none.
std::size_t utf8_length(std::string_view text);

/// True where a text is whole characters from its beginning to its end.
bool is_utf8(std::string_view text);

/// Text from outside as one line for a screen, whatever names and bytes it holds. What is not seen as itself is written as
/// an escape: a line feed as `\n`, other control characters as `\x1B`, what turns the direction of the text or has no width
/// as `\u202E`, a byte that is not UTF-8 as `\xFF`.
/// @param longest  about how many bytes are kept; what is cut ends in "..."
std::string printable(std::string_view text, std::size_t longest = 600);

/// The same for a text of several lines of any length: line feeds stay.
std::string printable_lines(std::string_view text);

} // namespace attn
