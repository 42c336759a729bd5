#pragma once

#include "attn/core/array.hpp"

#include <string>
#include <string_view>

namespace attn::files {

/// What stands in front of the elements of an .npy file.
struct NpyHeader {
    std::string descr;  ///< the element type as NumPy writes it: "<f8"
    bool fortran_order; ///< the first axis varies fastest
    Shape shape;
};

/// Parses a header's dictionary: {'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }
/// @throws Error  where it is anything but a dictionary of these three keys, in any order
NpyHeader parse_npy_header(std::string_view text);

std::string to_text(const NpyHeader& header);

} // namespace attn::files
