#pragma once

#include "run.hpp"

#include <string>
#include <string_view>

namespace attn::show {

/// The page's content security policy: which scripts and styles it can run, and where it can ask for data.
std::string page_policy(std::string_view source);

/// A page around a model.
/// @param source  the script that gets numbers and explanations: carried.js or served.js
/// @param data    elements with what the page carries; empty for none
std::string filled_page(const Json& model, std::string_view source, const std::string& data);

} // namespace attn::show
