#pragma once

#include <string_view>

namespace attn {

/// The function between the maps of a feed-forward network, number by number. Its enumerators stand in activation.hpp:
/// options that only pass one on do without them, so that a new activation compiles few files again.
enum class Activation : unsigned char;

/// @name What networks have unless they are told otherwise
/// @{
inline constexpr Activation default_activation{0};      ///< relu
inline constexpr Activation default_gate_activation{3}; ///< silu
/// @}

/// The name of an activation as a trace has it: "relu", "gelu", "gelu-tanh", "silu", "quick-gelu", "gelu-bloom".
std::string_view name_of(Activation activation);

} // namespace attn
