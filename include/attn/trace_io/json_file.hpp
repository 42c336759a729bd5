#pragma once

#include <filesystem>
#include <string_view>

#include <nlohmann/json.hpp>

namespace attn {

/// An object in a JSON file from anywhere.
/// @param wanted  what the file should be, for who has something else
/// @throws FileError where the file is missing, larger than 64 MiB, no JSON, nested deeply, or no object
nlohmann::json read_json_object(const std::filesystem::path& path, std::string_view wanted);

} // namespace attn
