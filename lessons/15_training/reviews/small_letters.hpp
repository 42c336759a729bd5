#pragma once

#include <string>
#include <string_view>

namespace attn::train {

/// A text with its capital letters as small ones, of all scripts, as Unicode pairs them one by one.
/// @param text  in UTF-8
std::string in_small_letters(std::string_view text);

} // namespace attn::train
