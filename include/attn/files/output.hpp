#pragma once

#include <string_view>

namespace attn::files {

/// @name What a program prints, and whether it has arrived
///
/// A result that could not be delivered is not a success: a full disk, a closed stream. A pipe whose reader has left is
/// no such case: SIGPIPE ends a program as it ends any other.
/// @{

/// Gives a program that was started without standard input, output or errors one that can't be used, so that no file that
/// is opened later takes its place; and lets a file that must not grow be an error, not a signal.
void prepare_streams();

/// Writes to standard output. That it failed is said in the end, by expect_delivered().
void write_output(std::string_view text);

/// @throws Error where anything that was written to standard output has not arrived
void expect_delivered();
/// @}

} // namespace attn::files
