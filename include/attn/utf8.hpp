#pragma once

#include <cstddef>
#include <string_view>

namespace attn {

/// How many bytes the UTF-8 character has that a text begins with: 1 to 4; 0 where it begins with none.
std::size_t utf8_length(std::string_view text);

/// The same, and 0 where the character is a control character, which would move a cursor or start an escape sequence.
std::size_t visible_length(std::string_view text);

/// True where a text is whole characters from its beginning to its end.
bool is_utf8(std::string_view text);

} // namespace attn
