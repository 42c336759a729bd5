#pragma once

#include "attn/core/number_type.hpp"
#include "attn/files/output.hpp"

#include <nlohmann/json.hpp>

#include <cmath>

namespace attn::cli {

/// A number: JSON has no infinity and no NaN, which become text.
inline nlohmann::ordered_json json_of(double number)
{
    return std::isfinite(number) ? nlohmann::ordered_json(number)
                                 : nlohmann::ordered_json(number_text(number, NumberType::float64));
}

/// Prints JSON in ASCII, for machines: valid whatever names it holds, and no name reaches a terminal as it is. Bytes that
/// are not UTF-8 become U+FFFD.
inline void print_json(const nlohmann::ordered_json& json)
{
    files::write_output(json.dump(1, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

} // namespace attn::cli
