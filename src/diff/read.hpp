#pragma once

#include "attn/core/array.hpp"

#include <filesystem>
#include <functional>
#include <string>

namespace attn::diff {

/// Takes one array, with its name.
using TakeArray = std::function<void(const std::string& name, Array array)>;

/// Reads a trace, an .npz file of plain arrays, or a folder of .npy files, array by array.
/// @throws FileError  where it is none of them, or damaged
void read_each_array(const std::filesystem::path& path, const TakeArray& take);

} // namespace attn::diff
