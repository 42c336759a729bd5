#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace attn::show {

/// The scopes of a step inside another scope, from the outermost: in encoder, that of encoder.layers.0.norm1.mean are
/// encoder.layers.0 and encoder.layers.0.norm1. A word and its number are one scope.
/// @param most  of them
std::vector<std::string_view> scopes_in(std::string_view scope, std::string_view path, std::size_t most);

/// True where a path is inside a scope; every path is inside the scope without a name.
bool is_inside(std::string_view scope, std::string_view path);

} // namespace attn::show
