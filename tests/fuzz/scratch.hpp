#pragma once

#include "temporary_folder.hpp"

#include <filesystem>
#include <string_view>

namespace attn::fuzz {

/// A file of this name for one process, in a folder of its own.
inline std::filesystem::path scratch(std::string_view name)
{
    static const TemporaryFolder folder;
    return folder / name;
}

/// The same, holding these bytes.
inline std::filesystem::path scratch(std::string_view name, std::string_view bytes)
{
    put_bytes(scratch(name), bytes);
    return scratch(name);
}

} // namespace attn::fuzz
