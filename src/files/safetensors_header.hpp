#pragma once

#include "attn/core/array.hpp"
#include "elements.hpp"

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

namespace attn::files {

/// The reference implementation's limit.
inline constexpr std::size_t longest_safetensors_header = 100'000'000;

/// What the header says of a tensor: its elements and where in the data they are.
struct StoredTensor {
    const ElementFormat* format = nullptr;
    Shape shape;
    std::size_t begin = 0;
    std::size_t end = 0;
};

/// What stands in front of the data of a .safetensors file, by name.
using StoredTensors = std::map<std::string, StoredTensor, std::less<>>;

/// How a message speaks of a tensor: its name in quotes, shortened where it would leave no room for the message.
std::string tensor_called(std::string_view name);

/// Parses the JSON of a header.
///
/// A tensor has the keys dtype, shape and data_offsets, each once and nothing else; what it says of them is compared
/// with each other and not with the data.
///
/// @throws Error  where it is not JSON, or not that of a header; where a key or a name comes twice; where an element
///                type is not understood; where a shape takes another number of bytes than the offsets say
StoredTensors parse_safetensors_header(std::string_view text);

/// The JSON of a header, always the same for the same tensors.
/// @throws Error  where a name is not UTF-8 or is the one that the format keeps for itself
std::string to_text(const StoredTensors& tensors);

} // namespace attn::files
