#pragma once

#include "attn/cli/flags.hpp"
#include "attn/core/budget.hpp"
#include "attn/mistakes/interventions.hpp"
#include "attn/show/console.hpp"

#include <filesystem>
#include <initializer_list>
#include <optional>

namespace attn::cli {

/// @name Flags that lessons and `attn run` have in common
/// @{
FlagGroup intervention_flags(mistakes::InterventionFlags& flags);
FlagGroup screen_flags(show::ConsoleFlags& flags);
/// @}

/// How much the formulas of a trace may take; every command that computes them has it.
Flag budget_flag(std::optional<std::size_t>& size);

/// What is asked for, else the usual budget and 96 billion operations more for each GiB of the files: a GiB has 2^28 weights
/// in float32, so that each can be used by more than three hundred tokens.
Budget budget_for(const std::optional<std::size_t>& asked, std::initializer_list<std::filesystem::path> files);

/// @param flag     says where to write: "--trace"
/// @param written  the file that it names; empty where it is not given
/// @param read     files that the command reads
/// @throws Error where what is written would replace what is read
void expect_not_replaced(std::string_view flag, const std::filesystem::path& written,
                         std::initializer_list<std::filesystem::path> read);

} // namespace attn::cli
