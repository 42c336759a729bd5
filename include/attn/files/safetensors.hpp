#pragma once

#include "attn/files/npz.hpp"

#include <filesystem>

namespace attn::files {

/// Reads a .safetensors file, the format in which most weights are published.
///
/// | dtype                                  | becomes         |
/// |----------------------------------------|-----------------|
/// | F64, F32, F16, BF16                    | real, exactly   |
/// | I8, I16, I32, I64, U8, U16, U32, U64   | integer         |
/// | BOOL                                   | boolean, 0 or 1 |
///
/// Nothing in the file is trusted: the tensors must cover its data exactly, without overlap or hole, and memory grows
/// with the bytes that are there, never with what the header promises. The metadata is checked and left out.
///
/// @param limits     refuse more elements, all tensors that are read together, before reading the first one
/// @param is_wanted  the others are passed over
/// @throws FileError  where the file is missing, cut, or anything but what the format says; where a name or a key comes
///                    twice; where a tensor has another dtype, or a whole number beyond 2^53, which a double no longer
///                    counts exactly
/// @see https://github.com/huggingface/safetensors#format
NamedArrays read_safetensors(const std::filesystem::path& path, const NpzLimits& limits = {},
                             const NameFilter& is_wanted = any_name);

/// Writes a .safetensors file, the tensors in the order of their names. All of it or nothing, and always the same bytes.
///
/// Real numbers become F32 where each is exactly one and F64 otherwise; booleans BOOL; whole numbers I64.
/// read_safetensors gives the identical arrays back, NaN for NaN.
///
/// @throws FileError         where a name is not UTF-8 or is "__metadata__", which the format keeps for itself; where a
///                           boolean is not 0 or 1, or a whole number has a fraction or is beyond 2^53; where an array
///                           has more than 32 axes; where the file cannot be written
/// @throws std::logic_error  where an array's shape and number of values disagree
/// @see write_file
void write_safetensors(const std::filesystem::path& path, const NamedArrays& arrays);

} // namespace attn::files
