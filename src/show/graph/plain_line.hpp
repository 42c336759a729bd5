#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace attn::show {

/// One line that XML can hold: no control characters, and none of those that are no characters; shortened to a length.
std::string plain_line(std::string_view text, std::size_t longest = 400);

} // namespace attn::show
