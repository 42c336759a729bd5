#pragma once

#include "flags.hpp"

#include "attn/trace_io/console.hpp"
#include "attn/what_if/answers.hpp"

#include <initializer_list>

namespace attn {

/// @name Flags that lessons and `attn run` have in common
/// @{
FlagGroup what_if_flags(AnswerFlags& flags);
FlagGroup screen_flags(ConsoleFlags& flags);
/// @}

/// @param flag     says where to write: "--trace"
/// @param written  the file that it names; empty where it is not given
/// @param read     files that the command reads
/// @throws Error where what is written would replace what is read
void expect_not_replaced(std::string_view flag, const std::filesystem::path& written,
                         std::initializer_list<std::filesystem::path> read);

} // namespace attn
