#pragma once

#include "attn/core/recording.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace attn::formula {

/// The first number of a run that is infinite or NaN although all that its formula names is finite.
struct Overflow {
    const Step* step;
    std::size_t offset; ///< of the number, row-major
};

/// Looks for it. A formula that says inf, as a mask's does, means an infinity: that is no overflow.
/// @param meant  scopes whose steps are meant to overflow: "large.naive"
std::optional<Overflow> find_overflow(const Recording& recording, const std::vector<std::string>& meant = {});

/// "scores[0,1] is inf, though all numbers that it follows from are finite: …"
std::string to_text(const Overflow& overflow);

} // namespace attn::formula
