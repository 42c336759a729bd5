#pragma once

#include <cstddef>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace attn::files {

/// Why a text is no JSON, in our words: 'is no JSON: it can't go on with "}" at line 2, byte 5'.
/// @param position  how many bytes the parser had read, the one at fault included
/// @param error     what it said; of its own words nothing is repeated
std::string json_fault(std::string_view text, std::size_t position, const nlohmann::json::exception& error);

/// The same for what nlohmann::json::parse throws.
std::string json_fault(std::string_view text, const nlohmann::json::exception& error);

/// How large the parts of a JSON text can be.
struct JsonLimits {
    std::size_t deepest;                                             ///< lists and objects in each other
    std::size_t most_keys = std::numeric_limits<std::size_t>::max(); ///< of one object
};

/// Looks at JSON from anywhere before it is parsed. What parses it takes a time that grows with the square of an object's keys
/// where it keeps their order, or of a list's entries where it is asked to watch the depth.
/// @throws Error where a part is larger than that
void expect_small_parts(std::string_view json, const JsonLimits& limits);

/// An object in JSON of unknown origin.
/// @param wanted  what the text should be, for messages
/// @throws Error where it is no JSON, nested deeply, or no object
nlohmann::json parse_json_object(const std::string& text, std::string_view wanted);

/// An object in a JSON file of unknown origin.
/// @param wanted  what the file should be, for messages
/// @throws FileError where the file is missing, larger than 64 MiB, no JSON, nested deeply, or no object
nlohmann::json read_json_object(const std::filesystem::path& path, std::string_view wanted);

} // namespace attn::files
