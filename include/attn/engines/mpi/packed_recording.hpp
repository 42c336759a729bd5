#pragma once

#include "attn/core/recording.hpp"

#include <string>

namespace attn::mpi {

/// A recording as bytes, to be sent to a program of the same build.
std::string pack(const Recording& recording);

/// The inverse of pack().
/// @throws Error where the bytes are not what pack() gave
Recording unpack(const std::string& bytes);

} // namespace attn::mpi
