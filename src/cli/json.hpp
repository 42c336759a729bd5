#pragma once

#include "attn/files/output.hpp"

#include <nlohmann/json.hpp>

namespace attn::cli {

/// Prints JSON in ASCII, for machines: valid whatever names it holds, and no name reaches a terminal as it is. Bytes that
/// are not UTF-8 become U+FFFD.
inline void print_json(const nlohmann::ordered_json& json)
{
    files::write_output(json.dump(1, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

} // namespace attn::cli
