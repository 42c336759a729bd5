#pragma once

#include "attn/core/recording.hpp"

#include <string>
#include <string_view>

/// Traces as the fuzzers have them: a text with a line per step, which can be cut anywhere and still is one.
///
///     PATH|FORMULA|SHAPE|NUMBERS      weights|softmax(scores)|2,2|0.5,0.5,1,0
///     PATH=TARGET                     norm.x=residual
///
/// Numbers that are missing are 0, and those that are too many are left out. A line "---" begins a second trace.
namespace attn::fuzz {

/// @throws Error where a shape is larger than a fuzzer has time for
Recording trace_of(std::string_view text);

/// The way back.
std::string text_of(const Recording& recording);

/// Changes a trace as a hostile hand would: steps swapped, repeated or left out, names shadowed, shapes and numbers changed,
/// formulas exchanged, nested or replaced by others of the language.
/// @param seed  says how
Recording mutated(Recording recording, unsigned seed);

} // namespace attn::fuzz
