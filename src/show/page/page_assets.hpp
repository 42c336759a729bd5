#pragma once

#include <span>
#include <string_view>

namespace attn::show {

/// A file of this folder, as the build embedded it.
struct PageAsset {
    std::string_view name;   ///< "page.css"
    std::string_view text;   ///< byte for byte
    std::string_view sha256; ///< of the text, in hexadecimal
};

/// All of them; page.html holds a place {{page.css}} for each of the others.
std::span<const PageAsset> page_assets();

} // namespace attn::show
