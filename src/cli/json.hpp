#pragma once

#include "attn/core/number_type.hpp"
#include "attn/files/output.hpp"

#include <nlohmann/json.hpp>

#include <cmath>
#include <string>

namespace attn::cli {

/// A number: JSON has no infinity and no NaN, which become text.
inline nlohmann::ordered_json json_of(double number)
{
    return std::isfinite(number) ? nlohmann::ordered_json(number)
                                 : nlohmann::ordered_json(number_text(number, NumberType::float64));
}

/// JSON in ASCII, for machines: valid whatever names it holds, and no name reaches a terminal as it is. Bytes that
/// are not UTF-8 become U+FFFD.
inline std::string json_text(const nlohmann::ordered_json& json)
{
    return json.dump(1, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

inline void print_json(const nlohmann::ordered_json& json) { files::write_output(json_text(json)); }

} // namespace attn::cli
